"""Who carries the messages between the server and the clients."""
