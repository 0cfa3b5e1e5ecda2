"""The one exception for what a user gave and cannot be used."""


class UserError(Exception):
    """Something a user gave is wrong: a file, a setting, a prompt, a run.

    Every argument is one problem in one line: the thing, its value, what would be right. The command
    line prints the lines on standard error and ends with status 2; no traceback, because there is no
    bug of ours to look for.
    """

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(str(argument) for argument in self.args)

    def __str__(self) -> str:
        return "\n".join(self.problems)
