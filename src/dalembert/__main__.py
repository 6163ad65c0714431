"""`python -m dalembert` is the command `dalembert`."""

from .cli import main

if __name__ == "__main__":
    main()
