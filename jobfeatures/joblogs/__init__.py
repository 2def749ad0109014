"""Jobs as logs and accounting report them: records, folding of several into one, files."""
