"""Start and end of either role: settings checked, listeners opened, settings reloaded, `doctor`."""
