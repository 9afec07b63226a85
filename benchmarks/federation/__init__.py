"""What federation and privacy cost."""
