"""What prologs and epilogs do, by themselves and through the daemon."""
