"""Scripts for those who work on dalembert; nothing here is installed."""
