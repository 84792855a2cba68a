"""Stream-ordered operations: sends, receives and waits that run on a stream between kernels."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from . import _gpunet
from ._arguments import prepared, socket_handle
from ._memory import located
from ._stream import Flags


class Batch:
    """Operations in their order, put together now and posted as often as wanted. Each may take `timeout` seconds."""

    def __init__(self, gpu: Any, timeout: Optional[float] = None) -> None:
        self._kind = gpu.kind
        self._batch = _gpunet.Batch(timeout)

    def send(self, socket: Any, array: Any, start: int = 0, count: Optional[int] = None) -> "Batch":
        """Sends elements of a buffer or array that kernels reach."""
        address, size, keeps = located(array, self._kind, start, count, writes=False)
        self._batch.send(socket_handle(socket), address, size, [keeps, array])
        return self

    def receive(self, socket: Any, array: Any, start: int = 0, count: Optional[int] = None) -> "Batch":
        """Fills elements with what is received."""
        address, size, keeps = located(array, self._kind, start, count)
        self._batch.receive(socket_handle(socket), address, size, [keeps, array])
        return self

    def wait(self, flags: Flags, index: int, condition: str, value: int) -> "Batch":
        """Waits until a word is `>=` (cyclic), `==`, `&` or `nor` the value."""
        self._batch.wait(flags._flags, index, condition, value)
        return self

    def write(self, flags: Flags, index: int, value: int) -> "Batch":
        """Writes a word."""
        self._batch.write(flags._flags, index, value)
        return self

    def __len__(self) -> int:
        return len(self._batch)


class Completions:
    """The operations of a post. Letting go of it leaves them to themselves."""

    def __init__(self, completions: Any) -> None:
        self._completions = completions

    @property
    def done(self) -> bool:
        """Whether all are done."""
        return self._completions.done()

    @property
    def statuses(self) -> List[Optional[int]]:
        """How each went: 0, an error number, or None while it is not done."""
        return self._completions.statuses()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all are done; raises `OperationError` for the first that failed, or `StillRunning`."""
        self._completions.wait(timeout)

    def __len__(self) -> int:
        return len(self._completions)


class GraphBuilder:
    """The steps of a graph in their order; made by `Queue.graph`."""

    def __init__(self, queue: Any, gpu: Any) -> None:
        self._queue = queue
        self._gpu = gpu
        self._steps: List[Any] = []

    def launch(self, kernel: Any, grid: Any, block: Any, *args: Any, shared: int = 0) -> "GraphBuilder":
        """A kernel, with the arguments of every launch."""
        self._steps.append(prepared(kernel, self._gpu, grid, block, args, shared))
        return self

    def post(self, batch: Batch) -> "GraphBuilder":
        """The operations of a batch, as they are now."""
        self._steps.append(batch._batch)
        return self

    def build(self) -> "Graph":
        """The graph."""
        return Graph(self._queue.graph(self._steps))


class Graph:
    """Kernels and operations that are put on their queue's stream together, as often as wanted, in one call of the
    driver. It keeps what they use, and its queue open until it is closed. Closing leaves what is on the stream to run.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def launch(self) -> int:
        """Puts it on the stream; which of its launches this is, from 1."""
        return self._graph.launch()

    def wait(self, number: Optional[int] = None, timeout: Optional[float] = None) -> None:
        """Waits until the operations of that launch, by default the last one, are done; raises `OperationError` for
        the first that failed when it ran last (`index` counts all operations of the graph), or `StillRunning`.
        """
        self._graph.wait(self._graph.last() if number is None else number, timeout)

    @property
    def statuses(self) -> List[Tuple[int, int]]:
        """How often each operation has run, and how it went the last time: 0 or an error number."""
        return self._graph.statuses()

    def close(self) -> None:
        """Lets go of it, and of its queue."""
        self._graph.close()

    def __enter__(self) -> "Graph":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class Queue:
    """A queue of operations and kernels on a stream; made by `Net.queue`. Closing it leaves what is on the stream to
    run.
    """

    def __init__(self, queue: Any, gpu: Any, stream: Any) -> None:
        self._queue = queue
        self._gpu = gpu
        self._stream = stream

    def batch(self, timeout: Optional[float] = None) -> Batch:
        """An empty batch."""
        return Batch(self._gpu, timeout)

    def post(self, batch: Batch) -> Completions:
        """Puts the operations of a batch on the stream: all of them, or none."""
        return Completions(self._queue.post(batch._batch))

    def send(self, socket: Any, array: Any, start: int = 0, count: Optional[int] = None) -> Completions:
        """A batch of one send."""
        return self.post(self.batch().send(socket, array, start, count))

    def receive(self, socket: Any, array: Any, start: int = 0, count: Optional[int] = None) -> Completions:
        """A batch of one receive."""
        return self.post(self.batch().receive(socket, array, start, count))

    def launch(self, kernel: Any, grid: Any, block: Any, *args: Any, shared: int = 0) -> None:
        """Puts a kernel on the stream."""
        image, name, layout, items, objects = prepared(kernel, self._gpu, grid, block, args, shared)
        self._queue.launch(image, name, layout, items, objects)

    def graph(self) -> GraphBuilder:
        """An empty graph: `queue.graph().launch(kernel, 1, 64, data).post(batch).build()`."""
        return GraphBuilder(self._queue, self._gpu)

    def abort(self) -> None:
        """Stops what is on the stream, and what will be."""
        self._queue.abort()

    def close(self) -> None:
        """Closes the queue."""
        self._queue.close()

    def __enter__(self) -> "Queue":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
