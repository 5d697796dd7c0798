"""Queries of a run for its recorded profile windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from leadline.reader.horovod import read_horovod
from leadline.reader.profiles import BY, RecordedProfiles, window_table
from leadline.reader.python_profiles import PythonProfile


class ProfileQueries:
    """The methods of ``Run`` for operators, data loading, Python functions and Horovod."""

    path: str

    @cached_property
    def _profiles(self) -> RecordedProfiles:
        return RecordedProfiles(self.path)

    def profiles(self) -> pa.Table:
        """Return the completely written profile windows.

        Shape:
            One row per window: ``worker, id, kind, timer, part, first_step, end_step, start_ns, end_ns, bytes,
            notes``, ordered by start.
        """
        return window_table(self._profiles.windows())

    def operators(
        self,
        by: Sequence[str] = BY,
        *,
        window: str | None = None,
        worker: str | None = None,
        step: int | tuple[int, int] | None = None,
        phase: str | None = None,
        module: str | None = None,
        device: str | None = None,
    ) -> pa.Table:
        """Return the operators of detailed windows, grouped and ordered by self time.

        Shape:
            One row per group: the columns of ``by``, ``calls, total_ns, own_ns, memory_bytes`` and the shares.
        Args:
            by: Columns to group by: ``phase``, ``operator``, ``module``, ``device`` …
            window, worker, phase, device: Only these; None for all.
            step: Only this step, or a half-open range ``(first, end)``.
            module: Only modules whose name contains a match (``re.search``).
        Raises:
            NotCapturedError: No detailed window was recorded.
            UnknownNameError: There is no such column or window.
        """
        return self._profiles.operators(
            by, window=window, worker=worker, step=step, phase=phase, module=module, device=device
        )

    def operator_calls(
        self, *, window: str | None = None, worker: str | None = None, step: int | tuple[int, int] | None = None
    ) -> pa.Table:
        """Return every operator call of detailed windows.

        Shape:
            One row per call, ordered by start: ``worker, window, step, mode, phase, operator, module, device,
            start_ns, total_ns, own_ns, thread, memory_bytes``.
        Raises:
            NotCapturedError: No detailed window was recorded.
        """
        return self._profiles.operator_calls(window=window, worker=worker, step=step)

    def out_of_memory(self) -> list[dict[str, Any]]:
        """Return a memory report for each out-of-memory error, oldest first.

        Returns:
            Documents with ``step, time_ns, worker, error, categories`` (bytes of parameters, gradients, optimizer
            state, buffers), ``other_bytes`` (activations, batches and other memory on accelerators; None if not
            counted), ``modules`` (the same by module, the largest first) and ``devices``.
        """
        return self._profiles.out_of_memory()

    def data_loading(self, *, window: str | None = None, worker: str | None = None) -> pa.Table:
        """Return the events of PyTorch data loaders in the profile windows that recorded them.

        Shape:
            One row per event, ordered by start: ``worker, window, event, step, worker_id, num_workers, start_ns,
            duration_ns, bytes, batch_size, ready, pid``. ``event`` is ``fetch`` (a batch was created by the loader
            worker ``worker_id``; null: by the training process), ``wait`` (the training requested a batch while
            ``ready`` batches were available) or ``make_iterator``. Unknown values are null.
        Raises:
            NotCapturedError: No such window was recorded.
        """
        return self._profiles.data_loading(window=window, worker=worker)

    def horovod(self) -> pa.Table:
        """Return the Horovod timeline recorded so far, if ``HOROVOD_TIMELINE`` is set to a file.

        Shape:
            One row per completed activity: ``worker, tensor, activity, depth, start_ns, duration_ns, args``, ordered
            by start. ``activity`` is Horovod's name: ``NEGOTIATE_ALLREDUCE``, ``ALLREDUCE``, ``NCCL_ALLREDUCE`` …;
            ``depth`` is the number of enclosing activities of the tensor.
        Units:
            ns since the epoch, and ns; the resolution of Horovod's clock is one microsecond.
        """
        return read_horovod(self.path)

    def python_profile(
        self,
        *,
        kind: str = "cprofile",
        timer: str = "total",
        part: str = "loop",
        window: str | None = None,
        worker: str | None = None,
        step: int | tuple[int, int] | None = None,
        time_ns: tuple[int, int] | None = None,
        mode: str | None = None,
        phase: str | None = None,
        between: tuple[str, str] | None = None,
    ) -> PythonProfile:
        """Return the Python functions in selected slices of the Python profiles.

        Args:
            kind: ``cprofile`` or ``pyinstrument``.
            timer: The timer of cProfile: ``total``, ``cpu`` or ``off_cpu``.
            part: The part of the run that the window covers.
            window, worker, mode, phase: Only these; None for all.
            step: Only this step, or a half-open range ``(first, end)``.
            time_ns: Only slices that overlap a time interval.
            between: Only steps of the second mode that follow a step of the first.
        Raises:
            NotCapturedError: No such window was recorded.
            UnknownNameError: There is no such profiler, timer or window.
        """
        return self._profiles.python(
            kind=kind,
            timer=timer,
            part=part,
            window=window,
            worker=worker,
            step=step,
            time_ns=time_ns,
            mode=mode,
            phase=phase,
            between=between,
        )
