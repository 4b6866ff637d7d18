package accelerator

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerators"
	"gpipebench/gpipe/clock"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
)

// Every figure that comes with the program says where it is from, or that it is assumed.
func TestAcceleratorsHaveSources(t *testing.T) {
	list := testkit.Must(All())(t)
	names := map[string]bool{}
	for _, a := range list {
		names[a.Name] = true
		figures := map[string]bool{
			"flops": true, "memory": true, "bandwidth": true, "overhead": true, "link": true,
			"lanes": a.Lanes > 1, "tiled": a.Tiled, "fused": a.Fused, "packing": a.Packing,
			"far_link": a.Far != FarLink{}, "link.latency": a.Kernels != nil, "far_link.latency": a.Kernels != nil,
		}
		for _, field := range []string{"processors", "tiles", "cache", "start", "unaligned", "issue"} {
			figures["kernels."+field] = a.Kernels != nil
		}
		for field, has := range figures {
			if _, kind := a.Kinds[field]; kind != has {
				t.Errorf("%s: %s: has figures: %v; kind %q: want one of %v", a.Name, field, has, a.Kinds[field], kinds)
			}
			if kind := a.Kinds[field]; a.Kernels != nil && kind == "training" {
				t.Errorf("%s: %s: of a training: want figures of single products, copies or collectives", a.Name, field)
			}
			if has != marked(a.Sources[field]) {
				t.Errorf("%s: %s: has figures: %v; source %q: want one that begins with verified, excerpt or assumed", a.Name, field, has, a.Sources[field])
			}
		}
		for _, e := range a.Efficiencies {
			if e.Kind == "" || a.Kernels != nil && e.Kind == "training" {
				t.Errorf("%s: efficiency of %s: kind %q: want one of %v, of a GPU timed by its kernels not training", a.Name, e.Of, e.Kind, kinds)
			}
			if !marked(e.Source) && !strings.HasPrefix(e.Source, "calibrated: ") {
				t.Errorf("%s: efficiency of %s: source %q: want one that begins with verified, excerpt, assumed or calibrated", a.Name, e.Of, e.Source)
			}
		}
		testkit.Equal(t, a.Calibrated(), strings.HasSuffix(a.Name, "-calibrated"), "%s: calibrated", a.Name)
		if a.Ops != nil || a.Shapes != nil {
			t.Errorf("%s: times by operation, which no source has", a.Name)
		}
	}
	for _, name := range []string{"tpuv2", "tpuv3", "p100", "p100-sxm2", "v100", "v100-16g", "v100-32g", "a100-40g", "a100-80g", "h100", "h100-96g-500w", "h200", "zenith", "stampede2"} {
		if !names[name] {
			t.Errorf("no %s", name)
		}
	}
}

// marked reports whether a source says how well it was checked.
func marked(source string) bool {
	return slices.ContainsFunc([]string{"verified", "excerpt", "assumed"}, func(mark string) bool {
		rest, ok := strings.CutPrefix(source, mark)
		return ok && len(rest) > len(": ") && strings.ContainsAny(rest[:1], ":, ")
	})
}

const ownChip = `name: own
flops: {bf16: 10e12}
memory: 2GiB
bandwidth: 1e11
lanes: 16
link: {bandwidth: 1e9, through_host: true}
far_link: {devices: 4, bandwidth: 5e8}
efficiencies:
  - {of: dense, sizes: [{size: 16, share: 0.2}, {size: 256, share: 0.6, band: [0.5, 0.9]}], source: mine}
  - {of: memory, share: 0.5, source: mine}
ops:
  attention: {flops: 1e12}
shapes:
  "matmul 4x8 8x8 -> 4x8": 2e-6
`

func TestAcceleratorFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	testkit.NoError(t, os.WriteFile(file, []byte(ownChip), 0o600))
	a := testkit.Must(Named(file))(t)
	if a.Name != "own" || a.BF16 != 10e12 || a.F32 != 0 || a.Memory != 2<<30 || a.Bandwidth != 1e11 || a.Lanes != 16 ||
		a.Link.Bandwidth != 1e9 || !a.Link.ThroughHost || a.Overhead != 0 || a.Ops["attention"].FLOPs != 1e12 ||
		a.Far != (FarLink{4, clock.Link{Bandwidth: 5e8}}) {
		t.Errorf("read %+v", a)
	}
}

// A file is refused with a line, a column and what would be accepted there.
func TestAcceleratorFileRefuses(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"lanes: 16", "lane: 16", "own.yaml:5:1: unknown field lane: want name, description, flops,"},
		{"{bf16: 10e12}", "{}", "own.yaml:2:1: flops: no rate: want bf16, f32 or both"},
		{"10e12", "fast", `own.yaml:2:15: flops.bf16: "fast": want a number from 1 to`},
		{"10e12", "-1", `own.yaml:2:15: flops.bf16: "-1": want`},
		{"10e12", ".nan", `own.yaml:2:15: flops.bf16: ".nan": want`},
		{"bandwidth: 1e11", "bandwidth: 0", `own.yaml:4:12: bandwidth: "0": want a number from 1 to`},
		{"2GiB", "0", `own.yaml:3:9: memory: "0": want bytes from 1 to 1024TiB`},
		{"2GiB", "9999999999GiB", `own.yaml:3:9: memory: "9999999999GiB": want bytes`},
		{"2GiB", "2", "own.yaml:3:9: memory: 2 bytes: want a unit, such as 2GiB"},
		{"2GiB", "1048575", "own.yaml:3:9: memory: 1048575 bytes: want a unit"},
		{"2GiB", "2GB", `own.yaml:3:9: memory: "2GB": want bytes`},
		{"link: {bandwidth: 1e9, through_host: true}\n", "", "own.yaml:1:1: no link: want none, or keys and values: bandwidth, latency, through_host"},
		{"link: {bandwidth: 1e9, through_host: true}", "link: none", "own.yaml:7:1: far_link: without a link: want link as well"},
		{"link: {bandwidth: 1e9, through_host: true}", "link: fast", `own.yaml:6:7: link: "fast": want none, or keys and values: bandwidth`},
		{"lanes: 16", "lanes: 16.5", `own.yaml:5:8: lanes: "16.5": want a whole number from 1`},
		{"lanes: 16", "lanes: 0", `own.yaml:5:8: lanes: "0": want a whole number from 1`},
		{"bandwidth: 1e9, ", "", "own.yaml:6:7: link: no bandwidth: want a number from 1"},
		{"memory: 2GiB\n", "", "own.yaml:1:1: no memory: want bytes"},
		{"2e-6", "fast", "own.yaml:14:3: shapes: line 14: cannot"},
		{"2e-6", "-1", `own.yaml:14:3: shapes: "matmul 4x8 8x8 -> 4x8": -1: want seconds from 0`},
		{"2e-6", "2e-6\n  \"matmul 4x8 8x8 -> 4x8\": 1", "own.yaml:14:3: shapes: line 15: mapping key"},
		{"name: own", "name: My Chip", `own.yaml:1:7: name: "My Chip": want lower-case`},
		{"  attention:", "  attentoin:", "own.yaml:12:3: ops.attentoin: unknown: want add, attention,"},
		{"{flops: 1e12}", "1e12", `own.yaml:12:14: ops.attention: "1e12": want keys and values: flops, bandwidth, weights, overhead`},
		{"bandwidth: 5e8", "bandwidth: 5e9", "own.yaml:7:24: far_link.bandwidth: 5e+09: want at most link's, 1e+09"},
		{"devices: 4, ", "", "own.yaml:7:11: far_link: no devices: want"},
		{"of: dense", "of: dens", `own.yaml:9:10: efficiencies.0.of: unknown "dens": want dense, dense-fp8, attention,`},
		{"of: dense", "of: dense, dtype: fp8", `own.yaml:9:24: efficiencies.0.dtype: unknown "fp8": want bf16, f32`},
		{", source: mine}\n  - {of: memory", "}\n  - {of: memory", "own.yaml:9:5: efficiencies.0: no source"},
		{"sizes: [{size: 16, share: 0.2}, ", "share: 1, sizes: [", "own.yaml:9:5: efficiencies.0: want either share, perhaps with a band, or sizes"},
		{"size: 16", "size: 256", "own.yaml:9:5: efficiencies.0: size 256 with share 0.6, after size 256: want ascending sizes"},
		{"share: 0.2", "share: 11", `own.yaml:9:43: efficiencies.0.sizes.0.share: "11": want a number from 1e-06 to 10`},
		{"share: 0.2", "share: 0", `own.yaml:9:43: efficiencies.0.sizes.0.share: "0": want`},
		{", share: 0.2", "", "own.yaml:9:5: efficiencies.0: size 16 with share 0, after size 0: want"},
		{"[0.5, 0.9]", "[0.7, 0.9]", "own.yaml:9:5: efficiencies.0: 0.6 is outside its band, 0.7 to 0.9"},
		{"[0.5, 0.9]", "0.5", `own.yaml:9:79: efficiencies.0.sizes.1.band: "0.5": want a list`},
		{"of: memory", "of: memory, dtype: f32", "own.yaml:10:5: efficiencies.1: an efficiency of memory: want a share for all dtypes and sizes"},
		{"of: memory", "of: dense, dtype: f32", "own.yaml:10:5: efficiencies.1: a second efficiency of dense: want one for each kind and dtype"},
		{"share: 0.5, source: mine}", "share: 0.5, source: mine}\nsources: {lane: x}", "own.yaml:11:11: sources.lane: unknown: want name, description"},
		{"share: 0.5, source: mine}", "share: 0.5, source: mine}\nkinds: {memory: measured}", `own.yaml:11:9: kinds.memory: unknown "measured": want datasheet,`},
		{"share: 0.5, source: mine}", "share: 0.5, source: mine}\nkinds: {memroy: datasheet}", "own.yaml:11:9: kinds.memroy: unknown: want name,"},
		{"share: 0.5, source: mine}", "kind: guessed, share: 0.5, source: mine}", `own.yaml:10:24: efficiencies.1.kind: unknown "guessed": want datasheet,`},
		{"share: 0.5, source: mine}", "share: 0.5, source: mine}\nkernels: {processors: 4, tiles: [[0, 8]], cache: 1, start: 0, issue: 0}", `own.yaml:11:35: kernels.tiles.0.0: "0": want a whole number from 1`},
		{ownChip, "", "own.yaml:1:1: no name: want lower-case"},
		{ownChip, "- 1\n", "own.yaml:1:1: a list: want keys and values: name"},
	} {
		text := strings.Replace(ownChip, test.from, test.to, 1)
		if text == ownChip {
			t.Fatalf("%q is not in the file", test.from)
		}
		_, err := Read("own.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q for %q: %v, want %s", test.to, test.from, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(ownChip)
	f.Add("a: &a [*a]")
	list := testkit.Must(accelerators.Files.ReadDir("."))(f)
	for _, file := range list {
		text := testkit.Must(accelerators.Files.ReadFile(file.Name()))(f)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Read("own.yaml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "own.yaml:") {
				t.Errorf("%q names no place", err)
			}
			return
		}
		if a.Memory < 1 || !(a.Bandwidth > 0) || a.Lanes < 1 || !(a.BF16 > 0 || a.F32 > 0) || !(a.Overhead >= 0) {
			t.Errorf("accepted %+v", a)
		}
		for _, kind := range efficiencyKinds {
			for _, size := range []int{1, 100, 1 << 20} {
				if share := a.share(kind, graph.F32, size); !(share > 0 && share <= 10) {
					t.Errorf("%s at %d: %v of the peak", kind, size, share)
				}
			}
		}
	})
}
