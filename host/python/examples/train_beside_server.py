"""A training loop of PyTorch's and a server kernel of gpunet's, in one process on one GPU.

    python train_beside_server.py                     all stages; figures as JSON on standard output
    python train_beside_server.py --stage beside      one of them, with what it needs before it

What has to be seen to:

- Loading a kernel waits for every kernel that runs, and a server does not end. So its image is loaded first, and the
  training loop runs a few steps, on the stream that it will have, before the server is launched.
- cudaFree waits, too: PyTorch's memory comes from cudaMallocAsync, whose frees go by streams.
- Nothing waits for the whole device. A wait is for an event on the loop's own stream, and has a deadline.
- Streams share the hardware's queues, 32 at most: what is behind the server's kernel in its queue does not begin. The
  stage `probe` finds streams of PyTorch's that make progress beside it, and the loop takes the first of them.

Each stage is reported on standard error when it begins and ends. One that does not end by its deadline shows where all
threads stand, and ends the process. Exit status: 0, 1 where a stage failed, 77 where there is no PyTorch or no CUDA.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time

STAGES = ("alone", "server", "probe", "idle", "beside", "after", "stream", "graph")
SKIPPED = 77

SERVER = r"""
#include <gpunet/gpunet.cuh>

extern "C" __global__ void echo_server(gpunet_net net, uint64_t listener)
{
    GPUNET_SHARED(uint8_t[1024], buffer);
    const gpunet::listener_ref clients(gpunet::block(net), listener);
    while (auto stream = clients.accept()) {
        while (size_t bytes = stream->read(buffer).value_or(0)) {
            if (!stream->write_all(buffer, bytes)) {
                break;
            }
        }
    }
}
GPUNET_KERNEL(echo_server);
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A training loop of PyTorch's beside a server kernel of gpunet's.")
    parser.add_argument("--stage", action="append", choices=STAGES, help="run this one alone; may be given again")
    parser.add_argument("--image", help="an image with the kernel echo_server; by default it is compiled (NVRTC, g++)")
    parser.add_argument("--gpu", default="cuda:0", help="emulated: PyTorch on the CPU, without probe, stream and graph")
    parser.add_argument("--steps", type=int, default=400, help="steps of training in each stage")
    parser.add_argument("--blocks", type=int, default=1, help="blocks of the server")
    parser.add_argument("--deadline", type=float, default=60, help="seconds for a stage")
    parser.add_argument("--eager", action="store_true", help="load all of PyTorch's kernels at once, at its start")
    # The process of the client, which has neither library in it.
    parser.add_argument("--client", type=int, metavar="PORT", help=argparse.SUPPRESS)
    return parser.parse_args()


def client(port: int, seconds: float) -> None:
    """Round trips of 64 bytes until standard input ends."""
    message, times = bytes(range(64)), []
    begin = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print("connected", flush=True)
        while time.perf_counter() - begin < seconds and not select.select([sys.stdin], [], [], 0)[0]:
            for _ in range(50):
                sent = time.perf_counter()
                stream.sendall(message)
                answer = stream.recv(64)
                while len(answer) < 64:
                    more = stream.recv(64 - len(answer))
                    if not more:
                        raise SystemExit("the server has closed the connection")
                    answer += more
                times.append(time.perf_counter() - sent)
                if answer != message:
                    raise SystemExit("other bytes came back")
    times.sort()
    at = {f"p{part}_us": round(times[len(times) * part // 100] * 1e6, 1) for part in (50, 99)}
    print(json.dumps({**at, "round_trips": len(times)}))


class Stuck(Exception):
    """What was to make progress did not."""


class Client:
    """The client's process, from a `with` to its end."""

    def __init__(self, port: int, seconds: float) -> None:
        command = [sys.executable, __file__, "--client", str(port), "--deadline", str(seconds)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._seconds = seconds

    def __enter__(self) -> "Client":
        if self._process.stdout.readline() != "connected\n":
            raise Stuck("the client got no connection")
        return self

    def trips(self) -> dict:
        """Ends it; what it measured."""
        printed, _ = self._process.communicate("", timeout=self._seconds)
        if self._process.returncode != 0:
            raise Stuck(f"the client ended with status {self._process.returncode}")
        return json.loads(printed)

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait(10)


class Program:
    """What all stages share: the GPU, the server's image, the training loop."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.begin = time.perf_counter()
        self.result: dict = {}

    def report(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.begin:7.2f} s] {text}", file=sys.stderr, flush=True)

    def open(self) -> None:
        """The GPU and the server's image, before anything of PyTorch's runs."""
        import gpunet

        self.gpunet = gpunet
        self.gpu = gpunet.Gpu(self.options.gpu)
        self.report(f"GPU: {self.gpu}")
        made = self.gpu.load(self.options.image) if self.options.image else self.gpu.compile(SERVER, "echo")
        self.server_kernel = made["echo_server"]
        self.cuda = self.gpu.kind == "cuda"

    def warm(self) -> None:
        """The model, and some steps on each stream that the loop may have."""
        import torch

        self.torch = torch
        self.device = torch.device("cuda:0" if self.cuda else "cpu")
        self.report(f"PyTorch {torch.__version__} on {self.device}")
        self.result["torch"] = torch.__version__
        torch.manual_seed(0)
        width = 1024 if self.cuda else 64
        kind = torch.bfloat16 if self.cuda else torch.float32
        layers = torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        self.model = torch.nn.Sequential(*layers).to(self.device, kind)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.inputs = torch.randn(512 if self.cuda else 32, width, device=self.device, dtype=kind)
        # The first that makes progress beside the server is the loop's; `probe` says which.
        self.streams = [torch.cuda.Stream() for _ in range(4)] if self.cuda else [None]
        self.stream = self.streams[0]
        for number, stream in enumerate(self.streams):
            self.report(f"warming up on stream {number}")
            # What the model's set-up did on the default stream is done.
            if self.cuda:
                torch.cuda.synchronize()
            self.stream = stream
            self.train(20)
            if self.cuda:
                self.touch(stream)
        self.stream = self.streams[0]

    def step(self) -> object:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.torch.nn.functional.mse_loss(self.model(self.inputs), self.inputs)
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, steps: int) -> dict:
        """Steps of the loop, with a wait for the stream after every ten; how fast they were."""
        begin = time.perf_counter()
        for done in range(0, steps, 10):
            if self.cuda:
                with self.torch.cuda.stream(self.stream):
                    for _ in range(10):
                        loss = self.step()
                    # More memory than before, given back at once.
                    extra = self.torch.empty((64 + done % 7) << 20, dtype=self.torch.uint8, device=self.device)
                    del extra
                    self.passed(f"training, step {done + 10} of {steps}")
            else:
                for _ in range(10):
                    loss = self.step()
        seconds = time.perf_counter() - begin
        with self.torch.cuda.stream(self.stream) if self.cuda else self.torch.no_grad():
            return {"steps_per_s": round(steps / seconds, 1), "loss": round(float(loss.detach()), 6)}

    def passed(self, what: str, stream: object = None, seconds: float = 20) -> None:
        """Waits for all that is on the stream, by looking: a wait of the driver's has no deadline."""
        event = self.torch.cuda.Event()
        event.record(stream or self.stream)
        deadline = time.perf_counter() + seconds
        while not event.query():
            if time.perf_counter() > deadline:
                raise Stuck(f"{what}: the stream made no progress for {seconds} s")
            time.sleep(0)

    def touch(self, stream: object) -> None:
        """A short kernel on a stream, which the probe runs again."""
        with self.torch.cuda.stream(stream):
            self.inputs.add(1)
        self.passed("a short kernel", stream, 2)

    def serving(self) -> "Serving":
        return Serving(self)

    def run(self, stage: str) -> None:
        getattr(self, f"stage_{stage}")()

    def stage_alone(self) -> None:
        self.result["training_alone"] = self.train(self.options.steps)

    def stage_after(self) -> None:
        self.result["training_after"] = self.train(self.options.steps)

    def stage_server(self) -> None:
        with self.serving() as port, Client(port, self.options.deadline) as peer:
            time.sleep(2)
            self.result["server_alone"] = peer.trips()

    def stage_probe(self) -> None:
        """Which streams make progress beside the server."""
        good = []
        with self.serving():
            for number, stream in enumerate(self.streams):
                try:
                    self.touch(stream)
                    good.append(number)
                except Stuck as stuck:
                    self.report(f"stream {number}: {stuck}")
        self.result["streams_beside_the_server"] = good
        if not good:
            raise Stuck("no stream makes progress beside the server")
        self.stream = self.streams[good[0]]
        self.report(f"the loop has stream {good[0]}, of {good}")

    def stage_idle(self) -> None:
        with self.serving():
            self.result["training_beside_an_idle_server"] = self.train(self.options.steps)

    def stage_beside(self) -> None:
        with self.serving() as port, Client(port, self.options.deadline) as peer:
            self.result["training_beside_the_server"] = self.train(self.options.steps)
            self.result["server_beside_training"] = peer.trips()

    def tensors(self) -> tuple:
        numbers = self.torch.arange(256, device=self.device, dtype=self.torch.float32)
        return numbers, self.torch.zeros_like(numbers)

    def stage_stream(self) -> None:
        """A queue on a stream of PyTorch's: its kernels and ours take turns."""
        torch, side = self.torch, self.streams[-1]
        with torch.cuda.stream(side):
            out, back = self.tensors()
            # Once without the queue, so that all kernels are loaded.
            bool((out.mul(2) + 1 == back).all().item())
        with Echo() as echo, self.gpunet.Net(self.gpu) as net:
            handle = net.hand_over(socket.create_connection(echo.address, timeout=10))
            with net.queue(side, timeout=10) as queue, torch.cuda.stream(side):
                batch = queue.batch(timeout=10).send(handle, out).receive(handle, back)
                out.mul_(2)
                posted = queue.post(batch)
                more = back + 1
                posted.wait(10)
                self.passed("what follows the queue's operations", side)
                expected = self.tensors()[0] * 2 + 1
                self.result["queue_on_its_stream"] = bool((more == expected).all().item())
        if not self.result["queue_on_its_stream"]:
            raise Stuck("other numbers came back through the queue on PyTorch's stream")

    def stage_graph(self) -> None:
        """Operations in a graph that PyTorch captures."""
        torch, side = self.torch, self.streams[-1]
        rounds = 5
        with torch.cuda.stream(side):
            out, back = self.tensors()
            out.add_(0)
            bool((back.mul(3) == out).all().item())
        with Echo() as echo, self.gpunet.Net(self.gpu) as net:
            handle = net.hand_over(socket.create_connection(echo.address, timeout=10))
            with net.queue(side, timeout=10) as queue:
                batch = queue.batch(timeout=10).send(handle, out).receive(handle, back)
                graph = torch.cuda.CUDAGraph()
                self.report("capturing")
                # Threads of gpunet's call the driver meanwhile: this thread's calls alone are captured.
                with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                    out.add_(1)
                    queue.post(batch)
                    more = back * 3
                self.report("replaying")
                with torch.cuda.stream(side):
                    for _ in range(rounds):
                        graph.replay()
                    self.passed("replays of the graph", side)
                    expected = (self.tensors()[0] + rounds) * 3
                    self.result["captured_in_its_graph"] = bool((more == expected).all().item())
                # The graph goes before the queue whose operations it has.
                del graph
        if not self.result["captured_in_its_graph"]:
            raise Stuck("other numbers came back through PyTorch's graph")


class Serving:
    """The server, from a `with` to its end; its port."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._net = program.gpunet.Net(program.gpu)

    def __enter__(self) -> int:
        listener = self._net.listen()
        shape = self._program.options.blocks, 32
        self._launch = self._net.launch(self._program.server_kernel, *shape, listener)
        self._program.report("the server runs")
        return listener.port

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            running = not self._launch.done
            self._launch.abort()
            self._launch.wait(10)
            if kind is None and not running:
                raise Stuck("the server has ended by itself")
        finally:
            self._net.close()


class Echo:
    """A peer in a thread: what comes in goes back out."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.address = self._listener.getsockname()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        peer, _ = self._listener.accept()
        with peer:
            while True:
                try:
                    data = peer.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                peer.sendall(data)

    def __enter__(self) -> "Echo":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()


def skip(reason: str) -> None:
    print(f"skipped: {reason}", file=sys.stderr, flush=True)
    sys.exit(SKIPPED)


def main() -> None:
    options = arguments()
    if options.client is not None:
        client(options.client, options.deadline)
        return
    # Before the driver and PyTorch are started, who read them once; PyTorch has had both names of the first.
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync")
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync")
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    if options.eager:
        os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    stages = options.stage or STAGES
    on_cuda = options.gpu != "emulated"
    if not on_cuda:
        stages = [stage for stage in stages if stage not in ("probe", "stream", "graph")]
    elif "probe" not in stages and any(stage in ("idle", "beside") for stage in stages):
        # They want a stream that makes progress.
        stages = ["probe", *stages]
    program = Program(options)
    # Python's own modules are loaded; the libraries are looked for now, so that this is no stage that failed.
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        skip("PyTorch is not installed")
    failed = []
    for stage in ("open", "warm", *stages):
        faulthandler.dump_traceback_later(options.deadline, exit=True)
        program.report(f"{stage}: begin")
        try:
            getattr(program, stage)() if stage in ("open", "warm") else program.run(stage)
        except Exception as error:
            program.report(f"{stage}: FAILED: {type(error).__name__}: {error}")
            if stage == "open" and isinstance(error, program.gpunet.GpuError) and error.blame == "system":
                skip(f"no CUDA: {error}")
            failed.append(stage)
            if stage in ("open", "warm"):
                break
        else:
            program.report(f"{stage}: done")
        faulthandler.cancel_dump_traceback_later()
    print(json.dumps({**program.result, "failed": failed}, indent=1), flush=True)
    # The interpreter's end has a deadline, too: libraries free memory then.
    faulthandler.dump_traceback_later(options.deadline, exit=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
