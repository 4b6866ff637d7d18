package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/datasets"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/units"
	"gpipebench/nn"
	"gpipebench/train"
)

func newTrain() *cobra.Command {
	var t train.Training
	var trace, curve string
	var format, recipe, command string
	var in train.Processes
	var shown, dry bool
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "train",
		Short: "Train a network through the pipeline",
		Long: `Train cuts a network into partitions, trains it through the pipeline and
evaluates it on held-out data. The weights' SHA-256 that it prints at the end does
not depend on -k, on how the pipeline is cut, scheduled (except by pipedream) and run,
or, for networks without batch norm, on -m.

With the pipedream schedules each stage updates its own weights: the SHA-256 depends
on the schedule, on --window and (except for pipedream-2bw) on -k.

With --snapshot-dir an interrupt (Ctrl-C, SIGTERM) finishes the step and writes a
snapshot; a second interrupt ends at once. The same command with --resume continues
from there (after a kill, from the last snapshot) as if it had never stopped.

` + presetUsage() + `

` + recipeUsage(),
		RunE: does(func(ctx context.Context, o *output) error {
			if dir := t.Snapshots.Dir; dir != "" && !o.follows { // other outputs may be in it
				_, missing := os.Lstat(dir)
				if err := files.MakeDir(dir); err != nil {
					return err
				}
				if missing != nil {
					defer os.Remove(dir) // fails if anything is in it
				}
			}
			inputs := [][2]string{{"schedule", t.Setup.ScheduleFile}}
			_, named, _ := strings.Cut(t.Data, ":")
			for _, name := range append(strings.Split(named, ","), named) { // a text's name may have a comma
				inputs = append(inputs, [2]string{"data", name})
			}
			if err := checkOutputs(inputs,
				[2]string{"save", t.Save}, [2]string{"trace", trace}, [2]string{"log", t.Log}, [2]string{"curve", curve},
				[2]string{"translations", t.Translations},
			); err != nil && !o.follows {
				return err
			}
			if t.Steps == 0 && t.Epochs == 0 && (shown || trace != "" || curve != "") {
				return &failure.UsageError{Err: errors.New("without steps there is no timeline or curve: want --steps above 0, or no --timeline, --trace and --curve")}
			}
			t.Reductions = strings.HasSuffix(strings.ToLower(trace), ".json")
			if dry {
				return printSettings(o, &t, command, format)
			}
			var err error
			if t.Processes, err = together(cmd, in, &t.Setup); err != nil {
				return err
			}
			t.Announce = func(steps int, expected time.Duration) {
				o.progress.Begin(fmt.Sprintf("train: %s, %s", units.Counted(steps, "step"), units.About(expected)), steps)
			}
			t.Closing = func(what string) {
				o.progress.End()
				o.progress.Say(what)
			}
			t.Notice = o.progress.Say
			r, err := t.Run(ctx, func(s train.TrainStep) {
				o.progress.Line(s.String(), fmt.Sprintf("loss %.4f", s.Loss), s.Eval != nil)
			})
			o.progress.End()
			if r == nil || o.follows {
				return err
			}
			// The steps are done, so the outcome is printed whatever failed after them.
			printed := printTraining
			if format == "json" {
				printed = func(o *output, r *train.Result) error { return o.json(r) }
			}
			if r.LastStep == nil && r.ResumedAt > 0 && (shown || trace != "") {
				o.progress.Say("no step was left to train, so there is no timeline")
				trace, shown = "", false
			}
			return cmp.Or(err, printed(o, r), writeCurve(curve, &t, r), lastStep(o, &t, r.LastStep, trace, shown && format == "text"))
		}),
	}
	fs := modelFlags(cmd, &t.Model, trainedModel)
	fs.StringVar(&t.Data, "data", "synthetic", "data set: synthetic, text:FILE, gettext:, images:DIR, ...; language models: synthetic, text:FILE. Translators: synthetic-translation, parallel:SRC,TGT[,SRC2,TGT2...], gettext:DIR[,LANG...] (message catalogs; without DIR "+datasets.SystemCatalogs+"). Images: synthetic, synthetic-digits, cifar10:DIR, cifar100:DIR, mnist:DIR, images:DIR (a folder for each class)")
	batchFlag(fs, &t.Batch, 32, "examples per mini-batch")
	count(fs, &t.Steps, "steps", 1500, 0, train.MaxSteps, "mini-batches to train on")
	count(fs, &t.Epochs, "epochs", 0, 0, train.MaxSteps, "passes over the training data, instead of --steps")
	pipelineFlags(fs, &t.Setup, 1, 4)
	replicaFlags(fs, &t.Setup)
	zeroFlag(fs, &t.Setup)
	spatialFlag(fs, &t.Setup, threadsOfParts)
	tensorFlags(fs, &t.Setup, partsOfOperations)
	tiedFlag(fs, &t.Setup)
	dtypeFlag(fs, &t.Setup)
	processFlags(fs, &in)
	deviceFlags(fs, &t.Setup, "host")
	seedFlag(fs, &t.Seed, "seed of weights, dropout and data")
	value(fs, &recipe, "recipe", "", "name", "a paper's settings as defaults: "+train.RecipeNames(), func(s string) (string, error) {
		_, err := train.RecipeOf(s)
		return s, err
	})
	fs.BoolVar(&dry, "dry", false, "check the settings and print them as a command, with all presets and recipes, without training")
	number(fs, &t.Model.Dropout, "dropout", 0.1, rates, "rate, from 0 up to 1")
	value(fs, &t.Optimizer, "optimizer", "adam", strings.Join(train.Optimizers(), "|"), "optimiser; momentum and nesterov use 0.9, rmsprop is TensorFlow's, lars uses --l2 as its weight decay and takes settings such as lars:momentum=0.929:trust=0.001:eps=0", optimizerName)
	number(fs, &t.LR, "lr", 0.003, positive, "learning rate")
	value(fs, &t.LRSchedule, "lr-schedule", "", "schedule", nn.LRScheduleForms+" (default inverse-sqrt:W; W is 200, or a quarter of the steps if that is less)", func(s string) (string, error) {
		_, err := (nn.LRUnits{Batch: 1, EpochSteps: 1 << 20}).Parse(s, 1) // neither is known yet
		return s, err
	})
	number(fs, &t.ClipNorm, "clip-norm", 1, anything, "largest global norm of the gradient; 0: no limit")
	number(fs, &t.Model.ClipLogits, "clip-logits", 0, anything, "largest magnitude of a logit; 0: no limit")
	fs.BoolVar(&t.Model.ScaledInit, "scaled-init", false, "divide the initial feed-forward weights by the number of layers; for gnmt, scale initial weights by the width")
	number(fs, &t.LabelSmoothing, "label-smoothing", 0, rates, "label smoothing in training: share of the target's probability spread over all tokens or classes, from 0 up to 1")
	number(fs, &t.L2, "l2", 0, anything, "L2 regularisation: this number times the weight is added to the gradient; not for biases and norms")
	number(fs, &t.EMA, "ema", 0, rates, "decay of a moving average of the weights, used for evaluation, such as 0.9999; at first at most (1+step)/(10+step). 0: no average")
	value(fs, &t.Keep, "keep", "last", "last|best", "which weights to keep; best: those with the lowest loss on the development set, which is half of the held-out data. The final evaluation uses the other half", train.ParseKeep)
	count(fs, &t.EvalEvery, "eval-every", 0, 0, train.MaxSteps, "steps between evaluations; 0: only at the end, for images after each epoch")
	count(fs, &t.Generate, "generate", 0, 0, train.MaxGenerate, "tokens that a language model generates at the end; once greedily, once sampled with --seed")
	translationFlags(fs, &t)
	imageFlags(fs, &t)
	fs.StringVar(&t.Load, "load", "", "file of initial weights (safetensors); its network must compute the same function. With --steps 0 the weights are only evaluated")
	fs.StringVar(&t.LoadPart, "load-part", "", "load only the weights in this file that match by path and shape; the rest are reported")
	fs.StringVar(&t.Save, "save", "", "file for the trained weights (safetensors); with --steps 0 the initial weights, or the loaded ones")
	fs.BoolVar(&t.SaveEMA, "save-ema", false, "save the moving average of --ema instead of the trained weights")
	snapshotFlags(fs, &t.Snapshots)
	fileFlag(fs, &t.Log, "log", "file for losses and evaluations, .csv; one line each. A resumed run appends to it", ".csv")
	fileFlag(fs, &curve, "curve", "file for a plot of the losses, .svg", ".svg")
	traceFlag(fs, &trace, "the last")
	fs.BoolVar(&shown, "timeline", false, "draw the last step's timeline")
	outcomeFlags(fs, &format, "text", "json")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("epochs") {
			if cmd.Flags().Changed("steps") {
				return errors.New("--steps and --epochs: want one of them")
			}
			t.Steps = 0
		}
		if err := ownFlags(cmd, &t.Model); err != nil {
			return err
		}
		if err := checkSnapshotFlags(cmd, &t.Snapshots); err != nil {
			return err
		}
		err := preset(cmd, &t, recipe)
		command = settings(cmd, "recipe", "dry", "format", "json")
		return err
	}
	return cmd
}

// printSettings prints the command that would train, if it can begin.
func printSettings(o *output, t *train.Training, command, format string) error {
	if err := t.Check(map[train.Model]int{}); err != nil {
		return err
	}
	if format == "json" {
		return o.json(map[string]string{"command": command})
	}
	return o.printf("%s\n", command)
}

// snapshotFlags adds the flags of snapshots.
func snapshotFlags(fs *pflag.FlagSet, s *train.Snapshots) {
	fs.StringVar(&s.Dir, "snapshot-dir", "", "directory for snapshots, from which --resume continues")
	count(fs, &s.Every, "snapshot-every", 100, 1, train.MaxSteps, "steps between snapshots; another is written after the last step")
	count(fs, &s.Keep, "snapshot-keep", 2, 1, train.MaxSteps, "number of newest snapshots to keep")
	fs.BoolVar(&s.Resume, "resume", false, "continue from the newest undamaged snapshot, if there is one; -k, -m (without batch norm), --schedule, --checkpoint, --device, --threads, and --replicas with the same --groups may change, and the bits stay the same. With asynchronous schedules, settings that affect the bits must not change")
}

// checkSnapshotFlags refuses flags of snapshots without a directory for them.
func checkSnapshotFlags(cmd *cobra.Command, s *train.Snapshots) error {
	if s.Dir != "" {
		return nil
	}
	for _, name := range []string{"snapshot-dir", "snapshot-every", "snapshot-keep", "resume"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s: want a directory, --snapshot-dir", name)
		}
	}
	s.Every = 0
	return nil
}

// lastStep writes and draws the last step's timeline.
func lastStep(o *output, of *train.Training, t *timeline.Timeline, trace string, shown bool) error {
	if err := writeTimeline(trace, t); err != nil || !shown {
		return err
	}
	what := "step"
	if of.Setup.Window > 0 {
		what = "window"
	}
	return cmp.Or(o.printf("\nthe last %s:\n", what), draw.WriteText(o.out, t, o.width))
}

func printTraining(o *output, r *train.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d parameters, %s", r.Params, units.Counted(len(r.Losses), "step"))
	if r.DType != "" {
		fmt.Fprintf(&b, " with %s activations", r.DType)
	}
	if r.ResumedAt > 0 {
		fmt.Fprintf(&b, " (resumed after step %d)", r.ResumedAt)
	}
	if n := len(r.Losses); n > 0 {
		fmt.Fprintf(&b, ", training loss %.4f to %.4f", r.Losses[0], r.Losses[n-1])
	}
	b.WriteString("\n")
	if r.Best != nil {
		fmt.Fprintf(&b, "kept the weights after step %d, which have the lowest development loss, %.4f\n", r.Best.Step, r.Best.Loss)
	}
	if r.Eval != nil {
		fmt.Fprintf(&b, "%v\n", r.Eval)
		if percent := int(100*r.Untrained + 0.5); percent > 0 {
			fmt.Fprintf(&b, "  after %s batch norm's moving averages, which the evaluation uses, are still %d%% initial values: train longer or lower --bn-momentum\n", units.Counted(r.Eval.Step, "step"), percent)
		}
		printTranslation(&b, r)
	}
	for _, y := range r.Yardsticks {
		kind := "baseline"
		if y.Floor {
			kind = "floor"
		}
		if y.Accuracy > 0 {
			fmt.Fprintf(&b, "  %s %s: %.4f nats, top-1 %.2f%%\n", kind, y.Name, y.Loss, 100*y.Accuracy)
			continue
		}
		side := "above"
		if r.Eval.Loss < y.Loss {
			side = "below"
		}
		fmt.Fprintf(&b, "  %s %s: %.4f nats, %.4f bits; the held-out loss is %.4f nats %s\n", kind, y.Name, y.Loss, y.Bits, math.Abs(r.Eval.Loss-y.Loss), side)
	}
	clock := "by the wall clock"
	if r.Device == "emulated" {
		clock = "on the virtual clock"
	}
	if r.StepSeconds > 0 {
		fmt.Fprintf(&b, "step %s %s, closed form %s, %.4g examples/s\n",
			units.FormatSeconds(r.StepSeconds), clock, units.FormatSeconds(r.ClosedForm), r.ExamplesPerSecond)
		printBelow(&b, r.StepSeconds, r.ClosedForm)
	}
	printIdle(&b, r.Devices)
	printMemory(&b, r.Partition, r.Placement, r.PeakBytes, r.HighWaterBytes, r.Parts)
	printProcesses(&b, r.Processes, r.Traffic)
	if r.Note != "" {
		fmt.Fprintf(&b, "partition: %s\n", r.Note)
	}
	printGenerated(&b, r.Generated)
	fmt.Fprintf(&b, "weights SHA-256 %s\n", r.WeightsSHA256)
	return o.printf("%s", b.String())
}

// printBelow explains a step that is shorter than its closed form, if it is by more than
// what varies from step to step.
func printBelow(b *strings.Builder, step, closedForm float64) {
	if step < 0.99*closedForm {
		b.WriteString("  the step is shorter than the closed form, which assumes equal stages: early stages recompute while they are idle, and a task runs faster while other cores are idle\n")
	}
}

// printIdle says of each of several devices what it waits for.
func printIdle(b *strings.Builder, devices []train.DeviceTime) {
	if len(devices) < 2 {
		return
	}
	for k, d := range devices {
		var parts []string
		for _, c := range []struct {
			name    string
			seconds float64
		}{
			{"warm-up", d.Idle.WarmUp}, {"drain", d.Idle.Drain}, {"neighbour", d.Idle.Neighbour},
			{"imbalance", d.Idle.Imbalance}, {"link", d.Idle.Link}, {"barrier", d.Idle.Barrier},
		} {
			parts = append(parts, c.name+" "+units.FormatShare(c.seconds, d.Step))
		}
		fmt.Fprintf(b, "  device %d: idle %s of a step: %s\n", k, units.FormatShare(d.Idle.Sum(), d.Step), strings.Join(parts, ", "))
	}
}

// printGenerated prints a prompt and what a language model appends to it, each line after a bar.
func printGenerated(b *strings.Builder, g *train.Generated) {
	if g == nil {
		return
	}
	prompt := "prompt, the beginning of the held-out part"
	if strings.Trim(g.Prompt, "0123456789 ") == "" {
		prompt += " (tokens of an invented language, as numbers)"
	}
	for _, part := range []struct{ name, text string }{
		{prompt, g.Prompt}, {fmt.Sprintf("%s after it, always the most probable", units.Counted(g.Tokens, "token")), g.Greedy},
		{fmt.Sprintf("%s after it, sampled", units.Counted(g.Tokens, "token")), g.Sampled},
	} {
		fmt.Fprintf(b, "%s:\n  | %s\n", part.name, strings.ReplaceAll(part.text, "\n", "\n  | "))
	}
}

// printMemory lists the devices' planned peaks and what was used: less, where no
// mini-batch of the run had the largest shapes.
func printMemory(b *strings.Builder, partition, placement []int, peak, high []int64, parts *train.PartBytes) {
	if placement != nil { // layers of each device
		devices := make([]int, slices.Max(placement)+1)
		for piece, device := range placement {
			devices[device] += partition[piece]
		}
		partition = devices
	}
	planned := func(peak, high int64) string {
		sign := "="
		if peak != high {
			sign = "for the largest mini-batch,"
		}
		return fmt.Sprintf("planned peak %d bytes %s high-water mark %d (%s)", peak, sign, high, units.FormatBytes(peak))
	}
	for k := range peak { // of all replicas
		fmt.Fprintf(b, "  device %d: %s, %s\n", k, units.Counted(partition[k%len(partition)], "layer"), planned(peak[k], high[k]))
		if parts != nil {
			for i := range parts.Peak[k] {
				fmt.Fprintf(b, "    part %d: %s\n", i+1, planned(parts.Peak[k][i], parts.HighWater[k][i]))
			}
		}
	}
	if parts != nil && parts.Exchanged > 0 {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(parts.ByKind)) {
			kinds = append(kinds, fmt.Sprintf("%s %s", kind, units.FormatBytes(parts.ByKind[kind])))
		}
		by := ""
		if kinds != nil {
			by = ": " + strings.Join(kinds, ", ")
		}
		fmt.Fprintf(b, "  in a step, parts copy %s from each other%s\n", units.FormatBytes(parts.Exchanged), by)
	}
}
