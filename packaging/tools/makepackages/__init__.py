"""Builds the packages; `packaging/build.sh` starts it.

`grammar` reads the command lines; `man`, `completions` and `configfile` generate
files from them and from the settings; `source` builds wheel and source archive,
`tree` lays out a package's files as `layout` says, `deb` and `rpm` wrap them.
"""
