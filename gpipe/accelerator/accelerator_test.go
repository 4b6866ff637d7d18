package accelerator

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerators"
	"gpipebench/gpipe/clock"
	"gpipebench/nn/graph"
)

// Every figure that comes with the program says where it is from, or that it is assumed.
func TestAcceleratorsHaveSources(t *testing.T) {
	list, err := All()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, a := range list {
		names[a.Name] = true
		figures := map[string]bool{
			"flops": true, "memory": true, "bandwidth": true, "overhead": true, "link": true,
			"lanes": a.Lanes > 1, "tiled": a.Tiled, "fused": a.Fused, "packing": a.Packing,
			"far_link": a.Far != FarLink{}, "torus": a.Torus != [2]int{},
		}
		for field, has := range figures {
			if has != marked(a.Sources[field]) {
				t.Errorf("%s: %s: has figures: %v; source %q: want one that begins with verified, excerpt or assumed", a.Name, field, has, a.Sources[field])
			}
		}
		for _, e := range a.Efficiencies {
			if !marked(e.Source) {
				t.Errorf("%s: efficiency of %s: source %q: want one that begins with verified, excerpt or assumed", a.Name, e.Of, e.Source)
			}
		}
		if a.Ops != nil || a.Shapes != nil {
			t.Errorf("%s: times by operation, which no source has", a.Name)
		}
	}
	for _, name := range []string{"tpuv2", "tpuv3", "p100", "p100-sxm2", "v100", "a100", "h100", "zenith", "stampede2"} {
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
torus: [4, 2]
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
	if err := os.WriteFile(file, []byte(ownChip), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Named(file)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "own" || a.BF16 != 10e12 || a.F32 != 0 || a.Memory != 2<<30 || a.Bandwidth != 1e11 || a.Lanes != 16 ||
		a.Link.Bandwidth != 1e9 || !a.Link.ThroughHost || a.Overhead != 0 || a.Ops["attention"].FLOPs != 1e12 ||
		a.Far != (FarLink{4, clock.Link{Bandwidth: 5e8}}) || a.Torus != [2]int{4, 2} {
		t.Errorf("read %+v", a)
	}
}

// A file is refused with a line, a column and what would be accepted there.
func TestAcceleratorFileRefuses(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"lanes: 16", "lane: 16", "own.yaml:5:1: unknown field lane: want name, description, flops,"},
		{"bf16: 10e12", "fp8: 10e12", "own.yaml:2:9: unknown field flops.fp8: want bf16, f32"},
		{"{bf16: 10e12}", "{}", "own.yaml:2:8: no rate: want bf16, f32 or both"},
		{"10e12", "fast", `own.yaml:2:15: "fast" is no number: want floating-point operations a second`},
		{"10e12", "-1", "own.yaml:2:15: -1: want floating-point operations a second from 1"},
		{"10e12", ".nan", `own.yaml:2:15: ".nan" is no number`},
		{"10e12", "Inf", "own.yaml:2:15: Inf: want"},
		{"bandwidth: 1e11", "bandwidth: 0", "own.yaml:4:12: 0: want bytes a second from 1"},
		{"2GiB", "0", `own.yaml:3:9: "0": want bytes from 1 to 1024TiB`},
		{"2GiB", "9999999999GiB", `own.yaml:3:9: "9999999999GiB": want bytes`},
		{"2GiB", "2", `own.yaml:3:9: 2 bytes: want a unit, such as 2GiB`},
		{"2GiB", "1048575", `own.yaml:3:9: 1048575 bytes: want a unit`},
		{"link: {bandwidth: 1e9, through_host: true}\nfar_link: {devices: 4, bandwidth: 5e8}\n", "", "own.yaml:1:1: no link: want its bandwidth, such as link: {bandwidth: 16e9}, or link: none, where transfers take no time"},
		{"link: {bandwidth: 1e9, through_host: true}", "link: none", "own.yaml:7:11: far_link without a link before it"},
		{"link: {bandwidth: 1e9, through_host: true}", "link: fast", "own.yaml:6:7: link: want fields: bandwidth, latency, through_host"},
		{"2GiB", "2GB", `own.yaml:3:9: "2GB": want bytes`},
		{"lanes: 16", "lanes: 16.5", `own.yaml:5:8: "16.5": want a whole number`},
		{"lanes: 16", "lanes: 0", "own.yaml:5:8: 0: want lanes from 1"},
		{"true", "yes", `own.yaml:6:38: "yes": want true or false`},
		{"bandwidth: 1e9, ", "", "own.yaml:6:7: no link.bandwidth: it cannot be left out"},
		{"memory: 2GiB\n", "", "own.yaml:1:1: no memory: it cannot be left out"},
		{"2e-6", "fast", "own.yaml:15:28: "},
		{"2e-6", "2e-6\n  \"matmul 4x8 8x8 -> 4x8\": 1", "own.yaml:16:3: \"matmul 4x8 8x8 -> 4x8\" is there twice: want it once"},
		{"lanes: 16", "name: own", "own.yaml:5:1: name is there twice"},
		{"name: own", "name: My Chip", `own.yaml:1:7: name "My Chip": want lower-case`},
		{"  attention:", "  attentoin:", "own.yaml:13:3: unknown field ops.attentoin: want add, attention,"},
		{"{flops: 1e12}", "1e12", "own.yaml:13:14: ops.attention: want fields: flops, bandwidth, weights, overhead"},
		{"bandwidth: 5e8", "bandwidth: 5e9", "own.yaml:7:35: 5e9: want bytes a second from 1 to 1e+09"},
		{"devices: 4, ", "", "own.yaml:7:11: no far_link.devices: it cannot be left out"},
		{"devices: 4", "devices: 1.5", `own.yaml:7:21: "1.5": want a whole number of devices of a group`},
		{"link: {bandwidth: 1e9, through_host: true}\n", "", "own.yaml:6:11: far_link without a link before it"},
		{"[4, 2]", "[4]", "own.yaml:8:8: torus: want its two sides in devices, such as [32, 32]"},
		{"[4, 2]", "[4, 0]", "own.yaml:8:12: 0: want devices from 1"},
		{"of: dense", "of: dens", `own.yaml:10:10: "dens": want dense, attention, conv,`},
		{"of: dense", "of: dense, dtype: fp8", `own.yaml:10:24: "fp8": want bf16, f32`},
		{", source: mine}\n  - {of: memory", "}\n  - {of: memory", "own.yaml:10:5: no efficiencies.source: it cannot be left out"},
		{"sizes: [{size: 16, share: 0.2}, ", "share: 1, sizes: [", "own.yaml:10:5: an efficiency of dense: want either share or sizes"},
		{"sizes: [{size: 16, share: 0.2}, ", "size: [", "own.yaml:10:17: unknown field efficiencies.size: want share, band, of, dtype, sizes, source"},
		{"size: 16", "size: 256", "own.yaml:10:50: size 256 after 256: want ascending sizes"},
		{"share: 0.2", "share: 11", "own.yaml:10:43: 11: want a share of the peak from 1e-06 to 10"},
		{"share: 0.2", "share: 0", "own.yaml:10:43: 0: want a share of the peak from 1e-06 to 10"},
		{"[0.5, 0.9]", "[0.7, 0.9]", "own.yaml:10:5: an efficiency of dense: 0.6 is outside its band, 0.7 to 0.9"},
		{"[0.5, 0.9]", "0.5", "own.yaml:10:79: band: want the lowest and the highest share, such as [0.7, 0.9]"},
		{"of: memory", "of: memory, dtype: f32", "own.yaml:11:5: an efficiency of memory: want a share for all dtypes and sizes"},
		{"of: memory", "of: dense, dtype: f32", "own.yaml:11:5: a second efficiency of dense: want one for each kind and dtype"},
		{ownChip, "", "own.yaml:1:1: an empty file"},
		{"name: own", "name: [", "own.yaml:"},
		{"name: own", "name: own\n---", "own.yaml:"},
		{ownChip, ownChip + "---\nname: other\n", fmt.Sprintf("own.yaml:%d:1: a second document: want one in a file", 2+strings.Count(ownChip, "\n"))},
		{ownChip, "- 1\n", "own.yaml:1:1: want an accelerator's fields: name"},
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
	list, err := accelerators.Files.ReadDir(".")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range list {
		text, err := accelerators.Files.ReadFile(file.Name())
		if err != nil {
			f.Fatal(err)
		}
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
				if share := a.share(kind, graph.F32, size); !(share > 0 && share <= maxShare) {
					t.Errorf("%s at %d: %v of the peak", kind, size, share)
				}
			}
		}
	})
}
