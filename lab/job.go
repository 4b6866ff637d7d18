package lab

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"gpipebench/internal/failure"
	"gpipebench/internal/progress"
	"gpipebench/lab/records"
)

// Job makes a sample, in which nothing is timed. Make also returns in a few words
// what it has made, for the progress.
type Job struct {
	Sample string
	Seed   uint64
	Make   func(ctx context.Context) (sample any, made string, err error)
}

// Making is the job of a sample whose name says enough.
func Making[V any](sample string, seed uint64, of func(context.Context) (V, error)) Job {
	return Job{sample, seed, func(ctx context.Context) (any, string, error) {
		made, err := of(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", sample, err)
		}
		return made, sample, err
	}}
}

// Missing are the jobs whose samples a log lacks.
func Missing(log *records.Log, jobs []Job) []Job {
	return slices.DeleteFunc(jobs, func(j Job) bool { return log.Has(j.Sample) })
}

// MakeMissing makes the samples of an experiment's jobs that a log lacks and cannot take: see Beside. Jobs
// with the same sample make the same, and one of them is done.
func MakeMissing(ctx context.Context, id string, log *records.Log, p progress.Progress, jobs []Job) error {
	for _, j := range jobs {
		if err := log.Take(j.Sample); err != nil {
			return err
		}
	}
	asked := map[string]bool{}
	jobs = slices.DeleteFunc(Missing(log, jobs), func(j Job) bool {
		twice := asked[j.Sample]
		asked[j.Sample] = true
		return twice
	})
	if len(jobs) == 0 {
		return nil
	}
	p.Begin(id, len(jobs))
	defer p.End()
	if err := Beside(ctx, log, p, jobs); err != nil {
		return fmt.Errorf("%s, %w", log.Key.Experiment, err)
	}
	return nil
}

// Beside makes the samples of jobs, as many at a time as there are cores, and adds them
// to a log. The samples do not depend on how many are made at a time.
func Beside(ctx context.Context, log *records.Log, p progress.Progress, jobs []Job) error {
	var adding sync.Mutex
	return Parallel(ctx, p, len(jobs), func(ctx context.Context, i int) (string, error) {
		sample, made, err := jobs[i].Make(ctx)
		if err != nil {
			return "", err
		}
		adding.Lock()
		defer adding.Unlock()
		return made, log.Add(jobs[i].Sample, jobs[i].Seed, sample)
	})
}

// Parallel calls f for each number below n, as many at a time as there are cores. F returns in a few words
// what it has made, for the progress. The first error, or a panic as one, ends the others.
func Parallel(ctx context.Context, p progress.Progress, n int, f func(ctx context.Context, i int) (made string, err error)) error {
	var advancing sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() (err error) {
			defer failure.Catch(&err)
			if err := ctx.Err(); err != nil {
				return err
			}
			made, err := f(ctx, i)
			if err != nil {
				return err
			}
			advancing.Lock()
			defer advancing.Unlock()
			p.Advance(made)
			return nil
		})
	}
	return group.Wait()
}
