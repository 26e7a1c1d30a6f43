"""The processes that train together: one alone, or those that torchrun started."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from majorcert.nets.device import place_among, usable_device


class Processes:
    """This process's place among those that train together; a context, as the process group must be closed.

    torchrun sets RANK, WORLD_SIZE and LOCAL_RANK. Gradients travel by nccl on CUDA and by gloo on CPUs.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.rank, self.size = place_among()
        self.device = usable_device(device)
        self._control: dist.ProcessGroup | None = None

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def __enter__(self) -> "Processes":
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self.size > 1:
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
            # Small agreements between CPUs, so that they never wait for the GPU.
            self._control = dist.new_group(backend="gloo")
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self.size > 1:
            if kind is None:
                dist.barrier(group=self._control)
            dist.destroy_process_group()

    def share(self, rows: Tensor) -> Tensor:
        """This process's part of the rows of a batch; the parts of all processes make up the batch."""
        return rows.tensor_split(self.size)[self.rank]

    def whole(self, rows: Tensor) -> Tensor:
        """The rows of all processes: what `share` took apart, put together again."""
        if self.size == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.size)]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients averaged over the processes, and the buffers of the first process for all."""
        if self.size == 1:
            return model
        return DistributedDataParallel(model, device_ids=[self.device] if self.device.type == "cuda" else None)

    def total(self, tensor: Tensor) -> Tensor:
        """The sum of everybody's tensor, on the CPU."""
        result = tensor.detach().cpu().clone()
        if self.size > 1:
            dist.all_reduce(result, group=self._control)
        return result

    def any(self, flag: bool) -> bool:
        """Whether anybody's flag is up."""
        return flag if self.size == 1 else bool(self.total(torch.tensor(int(flag))))
