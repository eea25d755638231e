"""The web server of commands: uvicorn's, which a signal ends."""

import asyncio
import contextlib
import signal

import uvicorn


class SignalServer(uvicorn.Server):
    """Serves until SIGINT or SIGTERM, and then calls `ending`; a second signal does not wait for
    answers that are under way."""

    def __init__(self, config, ending=lambda: None):
        super().__init__(config)
        self._ending = ending

    def capture_signals(self):
        return contextlib.nullcontext()  # serve() installs its own handlers

    async def serve(self, sockets=None):
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self._end)
        try:
            await super().serve(sockets)
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def _end(self):
        self._ending()
        self.force_exit, self.should_exit = self.should_exit, True
