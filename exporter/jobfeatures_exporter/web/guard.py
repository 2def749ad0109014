"""Checks before the answers: admission and passwords; and the headers of every response."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from jobfeatures_exporter.web.admission import ALWAYS, BUSY, PASSWORD, Admission, Refusal

if TYPE_CHECKING:  # needs the extra `web`
    from jobfeatures_exporter.web.configfile.reloaded import WebFile


class Guard:
    """Refuses requests. All methods run in one event loop."""

    def __init__(self, admission: Admission, file: WebFile | None) -> None:
        self._admission = admission
        self._file = file
        self._now = asyncio.get_running_loop().time
        self._auth = None
        if file is not None:
            from jobfeatures_exporter.web.configfile.basicauth import BasicAuth

            self._auth = BasicAuth()

    def close(self) -> None:
        """Stop the thread that checks passwords."""
        if self._auth is not None:
            self._auth.close()

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of every response."""
        return ALWAYS if self._file is None else {**ALWAYS, **self._file.options.headers}

    async def refusal(self, client: Hashable, host: str | None, authorization: str) -> Refusal | None:
        """Return why a request is refused, None if it is admitted."""
        if self._file is not None:
            self._file.refresh()
        now_secs = self._now()
        found = self._admission.refusal(client, host, now_secs)
        return found or await self._refuse_user(client, authorization, now_secs)

    async def _refuse_user(self, client: Hashable, authorization: str, now_secs: float) -> Refusal | None:
        if self._file is None or self._auth is None or not self._file.options.users:
            return None
        from jobfeatures_exporter.web.configfile.basicauth import PasswordVerdict

        verdict = await self._auth.judge(authorization, client, self._file.options.users, now_secs=now_secs)
        if verdict is PasswordVerdict.RIGHT:
            return None
        if verdict is PasswordVerdict.BUSY:
            return self._admission.refuse(BUSY, 429, "too many passwords to check", **{"Retry-After": "2"})
        realm = 'Basic realm="jobfeatures-exporter", charset="UTF-8"'
        return self._admission.refuse(
            PASSWORD, 401, "user or password is wrong", **{"WWW-Authenticate": realm}
        )
