"""`python -m dalembert` is the command `dalembert`."""

import sys


def main() -> None:
    """The command line, or what to install for it."""
    try:
        from .cli import main as run
    except ModuleNotFoundError as missing:
        sys.exit(f"dalembert: {missing}")
    run()


if __name__ == "__main__":
    main()
