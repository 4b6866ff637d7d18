package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpipebench"
	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/floatjson"
)

// Snapshots says where and how often a training's state is written to the disk, so that a
// training that was stopped goes on with the same bits. See package snapshot.
type Snapshots struct {
	Dir      string        // "": none are written, and nothing is resumed
	Every    int           // steps; one is also written after the last step
	Interval time.Duration // in place of Every: the time between two
	Keep     int           // the newest that stay; 0: 2
	// Resume makes the training go on from the newest snapshot that is whole, if there is
	// one. It is refused if something differs that decides bits.
	Resume bool
	// Own says that nothing but this training uses the directory: what it cannot go on from
	// is removed. There is none after the last step, so that whoever goes on has a step to
	// time.
	Own bool
}

// loadKey names the setting of what a training loaded; "": nothing. Older versions did not write it.
const loadKey = "load-sha256"

// keeper writes the snapshots of a Loop. Nil: none are written. If several processes run the
// training, they copy its state at the same positions, and the first of them writes it.
type keeper struct {
	Snapshots
	training *Training
	writer   *snapshot.Writer  // nil: another process writes
	copied   *gpipe.State      // then: memory for the next copy
	contents snapshot.Contents // of every snapshot, but its state and progress

	from    *snapshot.Snapshot // to go on from; nil: none
	stored  storedProgress     // of from
	seconds float64            // that the training had taken up to from
	began   time.Time          // of this process's part
	last    int                // the step of the last snapshot, or from's
	at      time.Time          // when it was taken
	whole   int                // the newest step that is known to be on the disk; 0: none
	written int                // snapshots that this process has tried to write
	failed  int                // of them, not written
	why     error              // the last reason
}

// newKeeper opens the training's directory of snapshots, and finds the one to go on from.
func (t *Training) newKeeper(s datasets.Source) (k *keeper, err error) {
	k = &keeper{Snapshots: t.Snapshots, training: t, began: time.Now(), at: time.Now()}
	if k.Dir == "" {
		return nil, nil
	}
	if k.Keep == 0 {
		k.Keep = 2
	}
	if k.contents.Settings, err = t.settings(s); err != nil {
		return nil, err
	}
	if k.contents.Settings[loadKey], err = digestOf(cmp.Or(t.Load, t.LoadPart), weightsFile); err != nil {
		return nil, err
	}
	k.contents.About = map[string]string{"engine": gpipebench.Engine()}
	if !t.Processes.follows() {
		if k.writer, err = snapshot.NewWriter(k.Dir, k.Keep, k.ended); err != nil {
			return nil, err
		}
	}
	if err = k.find(); err != nil && k.Own {
		k.from, err = nil, snapshot.Prune(k.Dir, math.MaxInt32, 0)
	}
	if err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// digest identifies the snapshot to go on from, "" if there is none.
func (k *keeper) digest() string {
	if k == nil || k.from == nil {
		return ""
	}
	return k.from.SHA256
}

// find finds the snapshot to go on from.
func (k *keeper) find() error {
	if !k.Resume {
		steps, err := snapshot.Steps(k.Dir)
		if err == nil && len(steps) > 0 {
			err = fmt.Errorf("%s: has snapshots of a training, the newest after step %d: want to resume it, or another directory", files.Printable(k.Dir), steps[len(steps)-1])
		}
		return err
	}
	from, damaged, err := snapshot.Newest(k.Dir)
	if err != nil {
		return err
	}
	for _, d := range damaged { // then there is an older one
		k.training.notice(fmt.Sprintf("%v; the snapshot of step %d is taken", d, from.Step))
	}
	if from == nil {
		if !k.Own {
			k.training.notice(k.Dir + " has no snapshot: the training begins at its first step")
		}
		return nil
	}
	ours := k.contents.Settings
	if _, says := from.Settings[loadKey]; !says {
		if ours[loadKey] != "" && !k.Own {
			k.training.notice(from.Name + " was written by an older version and does not say which weights its training loaded, which is not checked")
		}
		ours = maps.Clone(ours)
		delete(ours, loadKey)
	}
	if differ := differences(from.Settings, ours); len(differ) > 0 {
		return fmt.Errorf("%s: a snapshot of a training with %s: want the same, since it decides the bits", files.Printable(from.Name), strings.Join(differ, "; with "))
	}
	if engine := from.About["engine"]; engine != k.contents.About["engine"] {
		k.training.notice(fmt.Sprintf("%s was written by another engine (%.40q, this one is %q), whose bits may differ", from.Name, engine, k.contents.About["engine"]))
	}
	text, err := from.Progress()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &k.stored); err != nil {
		return fmt.Errorf("%s: its progress is not in this program's format", files.Printable(from.Name))
	}
	if b := k.stored.Best; b != nil && b.Step > 0 && from.Best() == "" {
		return fmt.Errorf("%s: an older version wrote it, without the best weights, those after step %d: want a snapshot with them, or to begin in another directory", files.Printable(from.Name), b.Step)
	}
	k.from, k.last, k.whole = from, from.Step, from.Step
	return nil
}

// restore makes the loop go on from the snapshot that was found, if there is one. It comes
// after everything else that changes weights or data.
func (l *Loop) restore() (err error) {
	k := l.keeper
	if k == nil {
		return nil
	}
	if k.from != nil {
		if err := l.goOn(k.from); err != nil {
			return err
		}
	}
	k.contents.Metadata, err = l.training.metadata(l.Source)
	return err
}

func (l *Loop) goOn(from *snapshot.Snapshot) error {
	if from.Step > l.Steps {
		return failure.Usagef("%s: a snapshot after step %d of a training of %d: want as many steps or more", files.Printable(from.Name), from.Step, l.Steps)
	}
	metadata, err := from.Metadata()
	if err != nil {
		return err
	}
	if _, differences := l.training.checkMeaning(from.Name, l.Source, metadata); len(differences) > 0 { // and scale pixels as before
		return fmt.Errorf("%s: %w", files.Printable(from.Name), differences[0])
	}
	state, err := from.State()
	if err != nil {
		return err
	}
	stored := l.keeper.stored
	if l.best != nil && stored.Best != nil {
		if err := l.resumeBest(*stored.Best, from.Best()); err != nil {
			return err
		}
	}
	if err := l.Trainer.Restore(state); err != nil {
		return fmt.Errorf("%s: %w", files.Printable(from.Name), err)
	}
	l.keeper.seconds, l.report, l.Resumed = stored.Seconds, stored.Report, from.Step
	if !l.keeper.Own {
		l.training.notice(fmt.Sprintf("goes on after step %d of %d, from %s", from.Step, l.Steps, from.Name))
	}
	return nil
}

// storedProgress is a snapshot's progress.
type storedProgress struct {
	Seconds float64         `json:"seconds"` // that the training has taken so far
	Report  json.RawMessage `json:"report"`  // Hooks.Report
	Best    *Best           `json:"best,omitempty"`
}

// keep writes a snapshot at a position, if one is due.
func (k *keeper) keep(l *Loop, report any) error {
	step := l.Trainer.Steps()
	ready := k.training.Processes != nil || k.writer.Idle() // several processes must decide alike
	if ready && k.due(step) || step >= l.Steps && k.Every > 0 {
		return k.save(l, report)
	}
	return nil
}

// save writes a snapshot at a position, unless there is one already, or the best weights have replaced
// the last ones.
func (k *keeper) save(l *Loop, report any) error {
	step := l.Trainer.Steps()
	if step == k.last || k.Own && step >= l.Steps || l.best != nil && l.best.taken {
		return nil
	}
	if k.writer == nil {
		k.last = step
		copied, err := l.Trainer.State(k.copied)
		k.copied = copied
		return err
	}
	text, err := floatjson.Marshal(report)
	if err != nil {
		return err
	}
	c := k.contents
	if c.Progress, err = json.Marshal(storedProgress{k.spent(), text, l.Best()}); err != nil {
		return err
	}
	k.last, k.at = step, time.Now()
	k.written++
	if b := l.best; b != nil && b.Step > 0 {
		if b.lost != nil {
			k.ended(step, b.lost)
			return nil
		}
		c.Best = b.file
	}
	return k.writer.Save(l.Trainer, c)
}

// due reports whether it is time for a snapshot.
func (k *keeper) due(step int) bool {
	if k.Every > 0 {
		return step/k.Every > k.last/k.Every
	}
	return time.Since(k.at) >= k.Interval
}

// spent is how long the training has taken, in seconds, over all processes that it had.
func (k *keeper) spent() float64 { return k.seconds + time.Since(k.began).Seconds() }

// ended is called with the outcome of a snapshot.
func (k *keeper) ended(step int, err error) {
	outcome := fmt.Sprintf("no snapshot after step %d: %v; the training goes on, and older snapshots stay", step, err)
	if older := errors.Is(err, snapshot.ErrOlder); err == nil || older {
		k.whole = step
		outcome = fmt.Sprintf("a snapshot after step %d, but %v", step, err)
	} else {
		k.failed++
	}
	if err != nil && (k.why == nil || reasonOf(k.why) != reasonOf(err)) {
		k.training.notice(outcome)
		k.why = err
	}
}

// reasonOf is what the system says of an error, whichever file it was of.
func reasonOf(err error) string {
	var system syscall.Errno
	if errors.As(err, &system) {
		return system.Error()
	}
	return files.Reason(err).Error()
}

// finish waits for the last snapshot. It is an error if one was not written, except into a
// directory of one's own, which only saves time.
func (k *keeper) finish() error {
	if k == nil || k.writer == nil {
		return nil
	}
	if k.writer.Wait(); k.failed == 0 || k.Own {
		return nil
	}
	return fmt.Errorf("%d of %d snapshots failed: %w", k.failed, k.written, k.why)
}

// Interrupted is the error of a training with snapshots whose context was cancelled.
type Interrupted struct {
	Step, Steps int
	Snapshots
	Kept int   // the step of the newest snapshot; 0: there is none
	Err  error // of the context
}

func (e *Interrupted) Error() string {
	text := fmt.Sprintf("interrupted after step %d of %d", e.Step, e.Steps)
	command := "the same command with --resume"
	if e.Own {
		command = "the same command"
	}
	switch {
	case e.Kept == 0:
		return text + ", before the first snapshot"
	case e.Kept < e.Step:
		return fmt.Sprintf("%s, of which no snapshot is written; %s goes on after step %d, from %s", text, command, e.Kept, e.Dir)
	}
	return fmt.Sprintf("%s; %s goes on from there, by the snapshot in %s", text, command, e.Dir)
}

func (e *Interrupted) Unwrap() error { return e.Err }

// interrupted returns the error that ends a run. If that is an interrupt, it first writes a
// snapshot of the position; not if one of several processes has cut off by itself what
// comes after the last step.
func (k *keeper) interrupted(ctx context.Context, l *Loop, err error, report any) error {
	together := errors.Is(err, errStop)
	if k == nil || !together && (ctx.Err() == nil || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx))) {
		return err
	}
	if together || !l.together() {
		if err := k.save(l, report); err != nil {
			return err
		}
	}
	if k.writer != nil {
		k.writer.Wait()
	}
	if together { // what has started the processes may kill those that are left when others have ended
		if _, err := l.Trainer.Exchange(context.WithoutCancel(ctx), nil); err != nil {
			return err
		}
	}
	return &Interrupted{l.Trainer.Steps(), l.Steps, k.Snapshots, k.whole, err}
}

// close waits for a snapshot that is being written, and lets others use the directory.
func (k *keeper) close() {
	if k != nil && k.writer != nil {
		k.writer.Close()
	}
}

// differences lists the settings that differ, with both values.
func differences(theirs, ours map[string]string) (all []string) {
	value := func(of map[string]string, name string) string {
		if v := of[name]; v != "" {
			return fmt.Sprintf("%.80q", v)
		}
		return "none"
	}
	both := maps.Clone(ours)
	maps.Copy(both, theirs)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if a, b := value(theirs, name), value(ours, name); a != b {
			all = append(all, fmt.Sprintf("%.60s %s, and this one has %s", name, a, b))
		}
	}
	return all
}
