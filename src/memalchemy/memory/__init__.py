"""What an agent remembers over its conversations, on the store and the logs below."""
