"""asv: track_ functions of peak memory. Start it as `gpupeak run --children all -- asv run`, so that its processes are recorded.

    from asv_memory import peak_of

    def track_matmul_peak():
        return peak_of(matmul, "device:0")
    track_matmul_peak.unit = "bytes"
"""
import gpupeak


def peak_of(function, scope, own=True):
    """Bytes: the most that was live while it ran; own: less what was live before. NaN, asv's word for no value, where nothing is recorded."""
    with gpupeak.phase(getattr(function, "__name__", "benchmark")) as phase:
        function()
    peak, start = phase.peak(scope), phase.start(scope)
    if peak is None:
        return float("nan")
    return peak - start if own else peak
