"""The compiled simulator: units with queues, instances of pipelines, fused kernels; many environments at once.

Flat arrays (`hdrl.settings.pipelines.kernel.state`), a loop from decision to decision (``engine``), the classic rules
(``decide``), what agents see (``observe``) and the functions that Python calls (``entries``).
"""
