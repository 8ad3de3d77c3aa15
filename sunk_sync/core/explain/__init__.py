"""What sunk-sync knows and decides about one object, for a person who asks. It writes nothing."""
