"""Redaction of secrets in connection strings and other texts.

All errors, logs, drawings and `repr`s show URLs by `redacted`.  It accepts any text, such as a driver's message, and
hides:

- the user info of URLs: `redis://:secret@host`;
- values whose names look secret, in queries and fragments: `?password=secret`, `&sig=secret`;
- passwords, tokens and keys in `key=value` texts, as ODBC, libpq, JDBC and Kafka have them, and in dicts and JSON.

>>> print(redacted("can't reach redis://ann:secret@host:6379/0?db=1&password=secret"))
can't reach redis://***@host:6379/0?db=1&password=***
>>> print(redacted("host=db user=ann password='my secret'"))
host=db user=ann password=***
"""

from __future__ import annotations

import logging
import os
import re

HIDDEN = "***"

# Patterns are compiled when they are needed first.
_SECRET_NAME = (
    r"(?i)pass(?:w|phrase|code|[^a-z]|$)|pwd|secret|token|key|cred|auth(?!or)|signature"
    r"|(?:^|[\W_])(?:sig|sas|pw)(?:[\W_]|$)"
)
# What stands between `://` and `@`, for any scheme, valid or not.  Repetitions are bounded, since a text may be long
# and crafted to be slow to search.
_USER_INFO = r"""(?x)://(
        [^\s/?#@:]{0,500}:[^\s'"?#]{0,1000}@                  # a password, which may have slashes and at-signs in it
        |[^\s/?#@]{0,1000}@                                    # a user, or quotes in the password
        |[^\s/?#@:]{0,500}:[^\s'"@]{0,1000}@                  # marks of a query or fragment in the password
        |[^\s/?#@:]{0,500}:(?!\d{1,5}\b|\s)[^@\n]{0,500}@  # spaces in the password, behind no port
    )"""
_QUERY_VALUE = r"""([?&;#]([\w.%\[\]-]{1,100})=)[^&;#\s'")\]]+"""
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\{[^}]*\}"""
_WORD = r"(?:password|passwd|passphrase|pwd|secret|token|signature|(?:api|access|account|private)[_.-]?key)[\w.-]{0,60}"
_SETTING = rf"""(?i)({_WORD}(?:\s{{0,3}}=\s{{0,3}}|\\?['"]\s{{0,3}}:\s{{0,3}}))(?:\\?{_QUOTED}|[^\s,;&'")}}\]]+)"""
# Protocols where the part before the @ is the name of a container.
_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")


def looks_secret(name: str) -> bool:
    """Return whether a setting of this name holds a secret.

    >>> [name for name in ("api_key", "s3a.secret.key", "sig", "author", "design", "passenger") if looks_secret(name)]
    ['api_key', 's3a.secret.key', 'sig']
    """
    return re.search(_SECRET_NAME, name) is not None


def redacted(text: str) -> str:
    """Return `text` with each secret replaced by `***`."""
    if "://" in text:
        text = re.sub(_USER_INFO, _without_user_info, text)
    if "=" in text or ":" in text:
        text = re.sub(_SETTING, rf"\1{HIDDEN}", text)
    if "=" in text:
        text = re.sub(_QUERY_VALUE, _without_value, text)
    return text


def without_environment(text: str) -> str:
    """Return a text, such as a client's message, without secrets, those of environment variables included."""
    for name, value in os.environ.items():
        if len(value) >= 8 and looks_secret(name):
            text = text.replace(value, HIDDEN)
    return redacted(text)


def redacted_cause(error: BaseException | None) -> BaseException | None:
    """Return `error`, or None if its text or that of its causes has a secret.

    Python prints the cause of an error as well: `raise SourceError(redacted(...)) from redacted_cause(error)`.
    """
    seen: list[BaseException] = []
    following = error
    while following is not None and all(following is not one for one in seen):
        seen.append(following)
        if any(redacted(text) != text for text in (str(following), repr(following))):
            return None
        following = following.__cause__ or following.__context__
    return error


def logger_of(module: str) -> logging.Logger:
    """Return a module's logger, which redacts secrets in its messages."""
    logger = logging.getLogger(module)
    logger.addFilter(_redact_message)
    return logger


def _redact_message(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    shown = redacted(text)
    if shown != text:
        record.msg, record.args = shown, None
    return True


def _without_user_info(found: re.Match[str]) -> str:
    before = found.string[: found.start()].lower()
    if ":" not in found[1] and before.endswith(_CONTAINERS):
        return found[0]
    return f"://{HIDDEN}@"


def _without_value(found: re.Match[str]) -> str:
    return f"{found[1]}{HIDDEN}" if looks_secret(found[2]) else found[0]
