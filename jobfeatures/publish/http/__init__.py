"""Serves the features over HTTP(S); its connections serve other listeners, too."""
