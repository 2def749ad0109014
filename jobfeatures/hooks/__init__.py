"""What prologs and epilogs of batch systems do, by themselves or through the daemon."""
