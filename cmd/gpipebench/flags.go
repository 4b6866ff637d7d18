package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/train"
)

// parsed is a flag whose value a function reads.
type parsed[T any] struct {
	to    *T
	text  string // as it was given
	kind  string // for help
	parse func(string) (T, error)
}

func (p *parsed[T]) String() string { return p.text }
func (p *parsed[T]) Type() string   { return p.kind }

func (p *parsed[T]) Set(text string) error {
	v, err := p.parse(text)
	if err != nil {
		if word := meant(text, strings.Split(p.kind, "|")); word != "" && word == strings.ToLower(word) { // no pattern
			return fmt.Errorf("%w; did you mean %s?", err, word)
		}
		return err
	}
	*p.to, p.text = v, text
	return nil
}

// value adds a flag that parse reads. The default must parse; "" leaves the value as it
// is. A name may begin with a letter that stands for it: k|partitions.
func value[T any](fs *pflag.FlagSet, to *T, name, standard, kind, usage string, parse func(string) (T, error)) {
	short, name := shorthand(name)
	p := &parsed[T]{to: to, kind: kind, parse: parse}
	if standard != "" {
		if err := p.Set(standard); err != nil {
			panic(fmt.Sprintf("--%s: %v", name, err))
		}
	}
	fs.VarP(p, name, short, usage)
}

// shorthand splits a name such as k|partitions.
func shorthand(name string) (short, long string) {
	if short, long, ok := strings.Cut(name, "|"); ok {
		return short, long
	}
	return "", name
}

// second returns a parser of two words, which reports whether it is the second.
func second(one, other string) func(string) (bool, error) {
	return func(s string) (bool, error) {
		word, err := oneOf(one, other)(s)
		return word == other, err
	}
}

// oneOf returns a parser of words.
func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if slices.Contains(words, s) {
			return s, nil
		}
		return "", fmt.Errorf("want %s", strings.Join(words, ", "))
	}
}

// fileFlag adds a flag for the name of a file to write, whose ending says in which
// format. A name without an ending is a file of the first one.
func fileFlag(fs *pflag.FlagSet, to *string, name, usage string, endings ...string) {
	value(fs, to, name, "", "string", usage, func(file string) (string, error) {
		ending := strings.ToLower(filepath.Ext(file))
		if ending == "" || slices.Contains(endings, ending) {
			return file, nil
		}
		list, last := endings[:len(endings)-1], endings[len(endings)-1]
		if len(list) > 0 {
			last = strings.Join(list, ", ") + " or " + last
		}
		return "", fmt.Errorf("want a name that ends in %s", last)
	})
}

// count adds a flag for a whole number from least to most.
func count(fs *pflag.FlagSet, to *int, name string, standard, least, most int, usage string) {
	value(fs, to, name, strconv.Itoa(standard), "n", usage, whole(least, most))
}

// whole returns a parser of whole numbers from least to most.
func whole(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return n, nil
	}
}

// span is the numbers that a flag takes.
type span struct {
	least, most float64
	open        bool // without most
	above       bool // without least
}

var (
	rates    = span{most: 1, open: true}
	shares   = span{most: 1}
	anything = span{most: math.MaxFloat32} // from 0
	positive = span{most: math.MaxFloat32, above: true}
)

func (r span) String() string {
	switch {
	case r.above:
		return fmt.Sprintf("above %v", r.least)
	case r.most == math.MaxFloat32:
		return fmt.Sprintf("of %v or more", r.least)
	case r.open:
		return fmt.Sprintf("of at least %v and less than %v", r.least, r.most)
	}
	return fmt.Sprintf("from %v to %v", r.least, r.most)
}

// has reports whether a number is in the span as the float32 that is used.
func (r span) has(v float64) bool {
	f := float64(float32(v))
	return f >= r.least && f <= r.most && !(r.open && f == r.most) && !(r.above && f <= r.least)
}

// number adds a flag for a number in a span.
func number(fs *pflag.FlagSet, to *float64, name string, standard float64, in span, usage string) {
	value(fs, to, name, strconv.FormatFloat(standard, 'g', -1, 64), "number", usage, func(s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !in.has(v) {
			return 0, fmt.Errorf("want a number %v", in)
		}
		return v, nil
	})
}

// bandwidth adds a flag of bytes a second.
func bandwidth(fs *pflag.FlagSet, to *float64, name, usage string) {
	value(fs, to, name, "", "bytes", usage, func(text string) (float64, error) {
		n, err := units.ParseBytes(text)
		if err == nil && n == 0 {
			err = fmt.Errorf("want more than 0")
		}
		return float64(n), err
	})
}

// seedFlag adds --seed.
func seedFlag(fs *pflag.FlagSet, to *uint64, usage string) {
	value(fs, to, "seed", "1", "n", usage, func(s string) (uint64, error) {
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			return 0, fmt.Errorf("want a whole number from 0 to %d", uint64(math.MaxUint64))
		}
		return n, nil
	})
}

// batchFlag adds --batch.
func batchFlag(fs *pflag.FlagSet, to *int, standard int, usage string) {
	count(fs, to, "batch", standard, 1, gpipe.MaxExamples, usage)
}

// pipelineFlags adds the flags that cut and schedule.
func pipelineFlags(fs *pflag.FlagSet, s *train.Setup, k, m int) {
	count(fs, &s.Partitions, "k|partitions", k, 1, gpipe.MaxTasks, "partitions, K; 1 to the number of layers")
	count(fs, &s.MicroBatches, "m|micro-batches", m, 1, gpipe.MaxExamples, "micro-batches per mini-batch, M; 1 to the number of examples")
	value(fs, &s.Schedule, "schedule", "gpipe", strings.Join(scheduleNames(), "|")+"|FILE.csv", "order of the tasks; FILE.csv: as the command schedule writes it", func(name string) (schedule.Schedule, error) {
		if s.ScheduleFile = ""; train.NamesScheduleFile(name) {
			s.ScheduleFile = name
			return schedule.GPipe, nil
		}
		return schedule.Parse(name)
	})
	windowFlag(fs, &s.Window)
	count(fs, &s.Chunks, "chunks", 0, 0, gpipe.MaxTasks, "model chunks per device, V; 0: the schedule's default, 2 for interleaved")
	value(fs, &s.Checkpoint, "checkpoint", "always", "always|except-last|never", "recomputed micro-batches; except-last (torchgpipe's name): all but micro-batch 0, whose backward runs first here", schedule.ParseCheckpoint)
	fs.BoolVar(&s.LateRecompute, "late-recompute", false, "recompute only after the gradient has arrived; otherwise one micro-batch ahead")
	cutFlags(fs, s)
}

// scheduleNames are all schedules, the asynchronous ones last.
func scheduleNames() []string { return slices.Concat(schedule.Names(), schedule.AsynchronousNames()) }

// windowFlag adds the window of asynchronous schedules.
func windowFlag(fs *pflag.FlagSet, to *int) {
	count(fs, to, "window", 0, 0, gpipe.MaxTasks, "mini-batches between two drains, for "+strings.Join(schedule.AsynchronousNames(), ", ")+", whose weights depend on it; 0 with other schedules")
}

// replicaFlags adds the flags of data parallelism.
func replicaFlags(fs *pflag.FlagSet, s *train.Setup) {
	count(fs, &s.Replicas, "replicas", 1, 1, gpipe.MaxReplicas, "data-parallel copies of the pipeline, R; each has its own K devices and its part of every mini-batch")
	value(fs, &s.Groups, "groups", "", "n", "groups per mini-batch, G (default: the number of replicas); runs with equal --groups end with the same bits, whatever --replicas is. Must be --replicas times a power of two, or anything with one replica. -m is per group", whole(1, gpipe.MaxExamples))
	scopeFlag(fs, s, ". all and N need as many groups as replicas")
}

// spatialFlag adds the parts of images; what says what they are.
func spatialFlag(fs *pflag.FlagSet, s *train.Setup, what string) {
	count(fs, &s.Spatial, "spatial", 1, 1, gpipe.MaxParts, what)
}

// tensorFlags adds the parts and blocks of operations; what says what the parts are.
func tensorFlags(fs *pflag.FlagSet, s *train.Setup, what string) {
	count(fs, &s.Tensor, "tensor", 0, 0, gpipe.MaxParts, what)
	count(fs, &s.Blocks, "blocks", 0, 0, gpipe.MaxBlocks, "blocks of heads, feed-forward columns, vocabulary and channels, B, whose sums are added by a tree: runs with equal --blocks end with the same bits, whatever --tensor is. 0: one, with the bits of undivided operations. Must be --tensor times a power of two, or one")
}

// What the parts of images are where they are computed, and where they are modelled.
const (
	threadsOfParts      = "parts into which each stage splits images by rows, S; each part has --threads threads and its own memory. The bits stay the same"
	partsOfOperations   = "tensor-parallel parts of each stage, T, which split heads, feed-forward columns, vocabulary and ResNet channels; each part has --threads threads and its own memory. 0: one. The bits stay the same"
	acceleratorsOfParts = "accelerators per stage, S, which split images by rows"
)

// scopeFlag adds --bn-scope; more says what else it asks for.
func scopeFlag(fs *pflag.FlagSet, s *train.Setup, more string) {
	value(fs, &s.BNScope, "bn-scope", "replica", "replica|all|N", "replicas that share batch norm's statistics; replica: none, all: all, N: every N consecutive ones"+more, gpipe.ParseScope)
}

// tiedFlag adds --tied-gradients.
func tiedFlag(fs *pflag.FlagSet, s *train.Setup) {
	value(fs, &s.TiedGradients, "tied-gradients", "reduce", "reduce|gather", "how replicas sum the gradient of a table shared by embeddings and softmax; gather: every replica gathers rows with indices from all others, as TensorFlow did. The bits stay the same", gpipe.ParseTableGradients)
}

// dtypeFlag adds the type of activations on devices that compute.
func dtypeFlag(fs *pflag.FlagSet, s *train.Setup) {
	value(fs, &s.DType, "dtype", "f32", "f32|bf16", "type of activations and their gradients; bf16: every operation rounds its results, which take half the memory. Weights, losses and the update stay float32", train.ParseDType)
}

// zeroFlag adds --zero of devices that compute, which divide no gradients and no weights.
func zeroFlag(fs *pflag.FlagSet, s *train.Setup) {
	value(fs, &s.ShardUpdate, "zero", "0", "0|1", "ZeRO stage; 1: replicas shard the optimiser's state and the update. The bits stay the same", func(stage string) (bool, error) {
		if stage != "0" && stage != "1" {
			return false, errors.New("want 0 or 1: ZeRO stages 2 and 3 are only modelled (plan, simulate)")
		}
		return stage == "1", nil
	})
}

// cutFlags adds the flags that choose a partition.
func cutFlags(fs *pflag.FlagSet, s *train.Setup) {
	value(fs, &s.Partitioner, "partitioner", "min-max", "min-max|min-variance|lingvo|block", "rule that cuts the layers into partitions", partition.Parse)
	value(fs, &s.Cost, "cost", "flops", "flops|time|memory", "what the cut balances; time: each layer's time, measured on this machine", train.ParseCost)
	value(fs, &s.Balance, "balance", "", "n,n,...", "layers in each partition, or in each chunk, instead of --partitioner", parseInts)
}

// deviceFlags adds the flags of the devices.
func deviceFlags(fs *pflag.FlagSet, s *train.Setup, device string) {
	value(fs, &s.Device, "device", device, "host|emulated", "kind of devices; host: threads, wall-clock time. emulated: one task at a time, on a virtual clock", parseDevice)
	threadsFlag(fs, &s.Threads)
	value(fs, &s.MemoryCap, "memory-cap", "", "bytes", "memory of each device, such as 64MiB; a plan that needs more is refused (default: no limit)", units.ParseBytes)
	bandwidth(fs, &s.Link.Bandwidth, "link-bandwidth", "bandwidth between emulated devices in bytes per second, such as 16GB (default: no limit)")
	value(fs, &s.Link.Latency, "link-latency", "", "duration", "latency of each transfer between emulated devices, such as 10us (default: none)", func(text string) (float64, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("want a duration such as 10us or 1.5ms")
		}
		return d.Seconds(), nil
	})
}

func parseDevice(s string) (gpipe.Kind, error) {
	if s != gpipe.Host.String() && s != gpipe.Emulated.String() {
		return 0, fmt.Errorf("want host or emulated (modelled devices: see simulate)")
	}
	return gpipe.ParseKind(s)
}

func parseInts(s string) ([]int, error) {
	var ns []int
	for _, part := range strings.Split(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("want whole numbers from 1, such as 3,2,3")
		}
		ns = append(ns, n)
	}
	return ns, nil
}

// threadsFlag adds --threads.
func threadsFlag(fs *pflag.FlagSet, to *int) {
	count(fs, to, "threads", 1, 1, gpipe.MaxThreads, "threads of each device; more than this machine's cores slow it down")
}

// outcomeFlags adds --format and --json for a command that prints one outcome.
func outcomeFlags(fs *pflag.FlagSet, format *string, formats ...string) {
	formatFlag(fs, format, "the outcome", formats...)
	fs.BoolFunc("json", "print the outcome as JSON; infinities and NaN are written as the strings \"Infinity\", \"-Infinity\" and \"NaN\"", func(s string) error {
		on, err := strconv.ParseBool(s)
		if on {
			*format = "json"
		}
		return err
	})
}

// profileFlag adds --profile.
func profileFlag(cmd *cobra.Command, to *string) {
	value(cmd.Flags(), to, "profile", "quick", strings.Join(lab.Profiles, "|"), "size: seconds, minutes, or as long as it takes", oneOf(lab.Profiles...))
}

// formatFlag adds --format.
func formatFlag(fs *pflag.FlagSet, to *string, what string, formats ...string) {
	value(fs, to, "format", "text", strings.Join(formats, "|"), "how to print "+what, oneOf(formats...))
}

// optimizerName reads the name of an optimiser, with its settings.
func optimizerName(s string) (string, error) {
	_, err := train.ParseOptimizer(s)
	return s, err
}
