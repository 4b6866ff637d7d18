package shutdown

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestHolds(t *testing.T) {
	On(t.Context())() // not held, and no panic
	synctest.Test(t, func(t *testing.T) {
		ctx, holds := With(t.Context())
		holds.Wait() // for none
		one, two := On(ctx), On(context.WithoutCancel(ctx))
		start := time.Now()
		go func() { time.Sleep(time.Second); one(); time.Sleep(time.Second); two() }()
		if holds.Wait(); time.Since(start) != 2*time.Second {
			t.Errorf("waited %v, want for both holds, 2 s", time.Since(start))
		}
	})
}
