"""What rules read of one host or one Work."""
