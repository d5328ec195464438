"""Rate limiters as the monitor keeps them: a bucket of size or refill time 0 is none."""

from __future__ import annotations

from dataclasses import replace

from generated_vmm.testing.bodies.devices import RateLimiter, TokenBucket


def effective(limiter: RateLimiter | None) -> RateLimiter | None:
    """The limiter as /vm/config shows it; None when it limits nothing."""
    if limiter is None:
        return None
    return _kept(RateLimiter(bandwidth=_on(limiter.bandwidth), ops=_on(limiter.ops)))


def merged(current: RateLimiter | None, update: RateLimiter | None) -> RateLimiter | None:
    """The limiter after a PATCH: an absent bucket stays, one that is off is removed."""
    base = current or RateLimiter()
    change = update or RateLimiter()
    return _kept(
        RateLimiter(
            bandwidth=base.bandwidth if change.bandwidth is None else _on(change.bandwidth),
            ops=base.ops if change.ops is None else _on(change.ops),
        )
    )


def _on(bucket: TokenBucket | None) -> TokenBucket | None:
    if bucket is None or not bucket.size or not bucket.refill_time:
        return None
    return replace(bucket, one_time_burst=bucket.one_time_burst or None)


def _kept(limiter: RateLimiter) -> RateLimiter | None:
    return None if limiter == RateLimiter() else limiter
