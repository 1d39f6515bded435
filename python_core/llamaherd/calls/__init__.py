"""What one caller says and gets: options, requests, calls, journals, answers."""
