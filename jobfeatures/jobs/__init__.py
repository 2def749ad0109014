"""Living jobs: what is known of them, and what that proves."""
