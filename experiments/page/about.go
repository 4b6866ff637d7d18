package page

// about says what a reader of the report should know before an experiment's
// tables.
type about struct{ place, text string }

// reading is the order in which a new reader meets the experiments.
var reading = []string{
	"table1", "table2", "table2-amoebanet", "table2-modelled", "figure3", "breakdown", "table3",
	"consistency", "consistency-accuracy", "delayed-reduction", "stability", "learning", "translation", "translation-scale", "ablation", "validation",
}

var abouts = map[string]about{
	"table1": {"Table 1, section 3",
		"How large a network fits on K accelerators, with re-materialisation and without. The paper's networks are planned tensor by tensor on modelled accelerators; smaller ones are trained under a memory cap at the border of what fits."},
	"table2": {"Table 2, section 3",
		"How throughput grows with partitions K and micro-batches M. The paper's 48 Transformer layers run at reduced width on emulated devices: each task runs alone and is timed, then the schedule is replayed with these times, so K may exceed the cores. `theory` is arithmetic on the schedule, `closed form` the same with the times as measured."},
	"table2-amoebanet": {"Table 2, section 3",
		"The same for AmoebaNet-D, whose layers are uneven: the cut decides how much is lost. Two cuts stand beside one another, by FLOPs and by measured time."},
	"table2-modelled": {"Table 2, section 3",
		"The same table at the paper's own scale. Nothing runs: every operation of the compiled programs takes what a roofline of the accelerator gives it. Conventions that the paper does not state are varied, so that it is seen what they are worth."},
	"figure3": {"Figure 3 of version 1, section 3.3",
		"The speed-up of pipelining over the naive way, one device at a time, and over a single accelerator."},
	"breakdown": {"Figure 4 of version 1, section 4.2",
		"Where the time of a step goes: computation, recomputation, the bubble, load imbalance, communication, setup, barrier and update. Each part is computed by itself, by replays of the schedule, and they add up to the step."},
	"table3": {"Table 3, section 3",
		"The same pipelines where accelerators have no fast links and boundary tensors pass through the host."},
	"consistency": {"Section 2.2",
		"The paper's claim that gradients do not depend on the number of partitions, taken literally: the SHA-256 of the weights after training must be one for every K, M, schedule, checkpoint mode, partition, kind of device and number of threads. With batch norm, whose statistics are those of a micro-batch, there is one for each M."},
	"consistency-accuracy": {"Section 2.2 and section 4",
		"With batch norm, M changes the function that is trained. Does it change where training ends? Many seeds, paired, with an interval."},
	"delayed-reduction": {"Section 5 of version 1",
		"The network's last cell, not its first convolution, halves the image: the same parameters, about four times the activations. Whether accuracy is worth them is trained at reduced scale, in pairs of seeds."},
	"stability": {"Section 5",
		"The paper met sharp activations in deep Transformers and names two cures: feed-forward layers initialised smaller with depth, and clipped logits. A deep, narrow network with noisy targets is trained in all four variants."},
	"learning": {"Beyond the paper",
		"That what runs through a pipeline learns: training and held-out losses beside what can be known about the data."},
	"translation": {"Section 5, in small",
		"One network for several languages with unequal shares of the data, as in the paper's massively multilingual model; here the languages are invented, so that the right answer is known."},
	"translation-scale": {"Table 5 and Figure 3, section 5",
		"What larger mini-batches are worth to a translator, and what more parameters are: in depth, in width, or in both. Networks of the paper's proportions learn invented languages with unequal shares of the data, over several seeds, in pairs."},
	"validation": {"Beyond the paper",
		"Whether modelled devices can be trusted: the same networks on emulated devices, where the arithmetic is real, and on modelled ones, calibrated by other networks, or by the same network on one device. Memory must agree to the byte."},
	"ablation": {"Section 2.1",
		"What the rule that cuts layers into partitions is worth, and what it balances, on the paper's networks."},
}
