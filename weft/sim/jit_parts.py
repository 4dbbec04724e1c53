"""Parts of kernels: functions that are lowered to LLVM and no further.

numba optimises and assembles every function it compiles, and then once more as part of every caller,
level by level. For what only kernels call, most of that is thrown away. Here an inlined helper stays as
it was lowered, so that the kernel around it is optimised once, as a whole; a kernel that another kernel
calls is optimised, since it may stay apart; nothing is assembled that Python does not call. Relies on
inner parts of numba, so only versions it was tested with use it (``KNOWN`` in ``jit.py``).
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba import _dynfunc
from numba.core import compiler, typed_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass


class _Library(JITCodeLibrary):
    """The code of a part; others link it, nobody runs it."""

    @classmethod
    def from_bitcode(cls, codegen: Any, name: str, bitcode: bytes) -> _Library:
        """What ``to_bitcode`` was given."""
        library = cls(codegen, name)
        library._final_module = binding.parse_bitcode(bitcode)
        library._finalized = True
        return library

    def to_bitcode(self) -> bytes:
        """Its code with that of all it calls."""
        return self._get_module_for_linking().as_bitcode()

    is_inlined = True
    """Optimised with its callers; a part that stays apart is optimised by itself."""

    def _optimize_final_module(self) -> None:
        if not self.is_inlined:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):
    """Lowers into such a library and makes it known to callers."""

    _name = "lower_part"

    def run_pass(self, state: Any) -> bool:
        context = state.targetctx
        state.library = _Library(context.codegen(), state.func_id.func_qualname)
        state.library.is_inlined = state.flags.forceinline
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()
        lowered = state["cr"]
        entry = _entry(lowered.fndesc, lowered.env, state.library)
        context.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class PartCompiler(compiler.Compiler):
    """numba's pipeline with that lowering in place of its own."""

    def define_pipelines(self) -> list[Any]:
        manager = compiler.PassManager("part")
        for usual in super().define_pipelines():
            for each, text in usual.passes:
                manager.add_pass(_Lowering if each is typed_passes.NativeLowering else each, text)
        manager.finalize()
        return [manager]


def _entry(description: Any, environment: Any, library: _Library) -> Any:
    """What stands for the part in numba's tables; there is nothing behind it to call."""
    name = description.qualname.rpartition(".")[2]
    return _dynfunc.make_function(description.lookup_module(), name, "", 0, environment, (library,))


def reduced(result: Any) -> tuple[Any, ...]:
    """A compiled part as numba can write it to a file."""
    description = result.fndesc
    description.typemap = description.calltypes = None  # large, and not needed again
    code = (result.library.name, result.library.to_bitcode())
    return code, description, result.environment, result.signature, result.reload_init


def rebuilt(
    context: Any, code: tuple[str, bytes], description: Any, environment: Any, signature: Any, reload: Any
) -> Any:
    """The compiled part that was ``reduced``."""
    for initialise in reload:
        initialise()
    library = _Library.from_bitcode(context.codegen(), *code)
    return compiler.compile_result(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=_entry(description, environment, library),
        library=library,
        signature=signature,
        objectmode=False,
        lifted=(),
        fndesc=description,
        environment=environment,
        reload_init=reload,
    )
