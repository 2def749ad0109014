"""The features over HTTP(S); its connections serve other listeners too, which need no more of it."""
