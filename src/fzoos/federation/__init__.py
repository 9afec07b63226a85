"""What every algorithm shares: messages, the client's loop, the server's loop."""
