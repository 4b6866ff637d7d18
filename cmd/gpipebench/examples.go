package main

import "github.com/spf13/cobra"

// examples are for subcommands that have none of their own. Tables have the same
// ones.
var examples = map[string]string{
	"playground": `  gpipebench playground
  gpipebench playground --port 8080 --open=false`,
	"train": `  gpipebench train --layers 4 -k 2 -m 8 --batch 32 --steps 200 --timeline
  gpipebench train --layers 2 --steps 300 --eval-every 50 --log losses.csv --curve losses.svg
  gpipebench train --data text:FILE -k 2 -m 4 --steps 500 --generate 200
  gpipebench train --model transformer --data gettext:,fr,de,cy --steps 500 --translations fr.csv
  gpipebench train --model gnmt --layers 3 -k 4 -m 4 --steps 500
  gpipebench train --model gnmt --bucket-window 16 --input-hosts 2 --steps 500
  gpipebench train --model resnet50 --width 8 --data cifar10:cifar-10-batches-bin -k 4 -m 4 --epochs 1
  gpipebench train --model amoebanetb --recipe imagenet --dry
  gpipebench train --model ssd-resnet34 --width 8 -k 2 -m 2 --epochs 2
  gpipebench train --model ssd-resnet34 --width 8 -k 1 -m 2 --spatial 2 --epochs 2
  gpipebench train --model llama --heads 8 --kv-heads 2 -k 2 -m 4 --steps 500
  gpipebench train --device emulated -k 8 -m 32 --batch 64 --steps 20 --trace step.svg
  gpipebench train --layers 6 -k 2 -m 8 --schedule interleaved --chunks 3 --timeline
  gpipebench train --steps 2000 --snapshot-dir snapshots --snapshot-every 200
  gpipebench train --steps 2000 --snapshot-dir snapshots --snapshot-every 200 -k 4 --resume`,
	"bench": `  gpipebench bench --layers 6 --dim 256 --ff 1024 --heads 8 --batch 16 -k 2 -m 16
  gpipebench bench --model resnet101 --image 64 --batch 16 --threads 2 --json
  gpipebench bench --model amoebanetd --layers 6 --filters 64 --image 64 --batch 4 --by-op
  gpipebench bench --model resnet50 --width 8 --image 64 --batch 4 --spatial 2 --by-op`,
	"launch": `  gpipebench launch -n 2 -- train --layers 4 -k 2 -m 4 --steps 100
  gpipebench launch -n 4 -- bench --replicas 2 -k 2 -m 4 --json
  gpipebench launch -n 8 --hosts hosts.txt --timeout 60s -- train --replicas 8 --batch 64 --save weights.safetensors`,
	"describe": `  gpipebench describe --model amoebanetd --layers 18 --filters 256 -k 4
  gpipebench describe --model transformer-lm --layers 48 --dim 2048 --ff 8192 --heads 16 --vocab 32000 -k 8 --split fine`,
	"schedule": `  gpipebench schedule --schedule zb-h1 -k 8 -m 24 --times f=18.5,b=18.1,w=9.3,comm=.6
  gpipebench schedule --schedule interleaved --chunks 3 -k 4 -m 8 --format csv
  gpipebench schedule --search --memory-limit 16 -k 8 -m 24 --times f=18.5,b=18.1,w=9.3,comm=.6 --activations f=1,b=.6,w=.4
  gpipebench schedule --schedule zb-v -k 4 -m 12 --times f=3,b=3,w=2,comm=.1 --svg zb-v.svg --html schedules.html
  gpipebench schedule --schedule dualpipev.csv --activations f=34,b=2,w=32`,
	"cut": `  gpipebench cut --costs layers.csv -k 8
  gpipebench cut --costs layers.csv -k 8 --memory-limit 16GiB --out stages.csv
  gpipebench schedule --times comm=.5,stages.csv --schedule 1f1b -k 8 -m 32`,
	"simulate": `  gpipebench simulate --model amoebanetd --layers 18 --filters 208 --device tpuv2 -k 8 -m 32 --batch 128
  gpipebench simulate --model ssd-resnet34 --classes 81 --device tpuv3 --batch 2048 --replicas 512
  gpipebench simulate --model ssd-resnet34 --classes 81 --device tpuv3 --batch 4 --spatial 4
  gpipebench simulate --model llama3-8b --device h100 --optimizer adamw --accounting full -k 8 -m 32 --batch 32 --schedule 1f1b
  gpipebench simulate --layers 12 -k 4 -m 8 --schedule 1f1b --checkpoint never --memory memory.svg --trace step.svg
  gpipebench simulate --layers 12 -k 4 -m 8 --schedule zb-v --checkpoint never --trace step.svg
  gpipebench simulate --model transformer-lm --layers 1663 --dim 2048 --ff 8192 --heads 16 --vocab 32000 -k 128 -m 32 --json`,
	"scoreboard": `  gpipebench scoreboard
  gpipebench scoreboard --only megatron-sc21-table1,zero-bubble-table4
  gpipebench scoreboard --table mine.yaml --json`,
	"table2": `  gpipebench table2
  gpipebench table2 --k 2,4,8,16 --profile smoke
  gpipebench table2 --print-spec table2-amoebanet > mine.yaml`,
	"plan": `  gpipebench plan --model resnet101 --device p100 --batch 256
  gpipebench plan --model resnet50 --classes 1000 --batch 32768 --devices 1024 --replicas 0 --all-reduce 2d
  gpipebench plan --model ssd-resnet34 --classes 81 --batch 64 --devices 16 --replicas 0 --spatial 2
  gpipebench plan --layers 24 --dim 1024 --ff 4096 --heads 16 --seq 512 --batch 32 --schedule all,searched --csv best.csv
  gpipebench plan --model amoebanetd --layers 72 --filters 512 --batch 128 --json`,
	"calibrate": `  gpipebench calibrate --out host.yaml
  gpipebench simulate --device host.yaml --dtype f32 -k 2 -m 8
  gpipebench calibrate --model resnet50 --width 16 --image 64 --batch 16 -m 4 --out resnet.yaml`,
	"completion": `  gpipebench completion bash > ~/.local/share/bash-completion/completions/gpipebench
  gpipebench completion fish > ~/.config/fish/completions/gpipebench.fish`,
	"help": `  gpipebench help train`,
	"version": `  gpipebench version
  gpipebench version --json`,
	"licences": "  gpipebench licences",
}

// addExamples adds examples to every subcommand of root.
func addExamples(root *cobra.Command) {
	for _, c := range root.Commands() {
		text, ok := examples[c.Name()]
		switch {
		case c.Example != "":
		case ok:
			c.Example = text
		case c.Flags().Lookup("profile") != nil && c.Flags().Lookup("format") != nil: // a table
			c.Example = "  gpipebench " + c.Name() + "\n  gpipebench " + c.Name() + " --profile smoke --format markdown --out /tmp/" + c.Name()
		}
	}
}
