"""The bodies of the commands, a file each: from a request to a report or an answer."""
