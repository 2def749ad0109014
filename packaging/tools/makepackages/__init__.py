"""What builds the packages; `packaging/build.sh` starts it.

`grammar` reads the command lines, `man`, `completions` and `configfile` write
what follows from them and from the settings; `source` makes wheel and source
archive, `tree` the files of a package where `layout` says, `deb` and `rpm` wrap them.
"""
