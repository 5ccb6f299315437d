"""The command line. Nothing here imports numpy before a command runs, so `enmf --help` is quick.

commands   the commands and their help
options    options that several commands share
inputs     reading the data, and problems reported in terms of the file
outputs    the files that a command writes, checked before the work
exits      exit codes, problems as one line, Ctrl-C and SIGTERM
"""
