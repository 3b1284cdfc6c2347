"""What a rank says while it waits for others, on its error output, as it may on a busy machine."""

import re

_NOTICE = re.compile(r"^W\d+ .*\] .* (waits for|is done and serves the rendezvous, ).*\n",
                     re.MULTILINE)


def without_notices(text):
    """`text` without the lines that say so."""
    return _NOTICE.sub("", text)
