// Package datasets supplies mini-batches: synthetic tasks whose best possible
// loss is known, and loaders of real formats.
//
// The contract of every source: a batch is a pure function of (seed, split,
// index, examples). Nothing depends on earlier calls, so a run can be stopped,
// resumed, repeated and compared, and any number of goroutines may call at
// once. A batch belongs to its source, which may return it again: to change
// one, change a copy. TestContract tests a source for all this.
//
// Language-model batches have one input (N, T) of token ids and one target (N,
// T), both int32. Target t of an example is the token that follows input t. A
// position without a target (padding) has input 0 and target -1, and does not
// count: a batch's Count is its number of targets. T is Config.SeqLen in every
// batch, so that one compiled program serves them all; N is the requested
// number of examples, or less in the last batch of a pass.
//
// Translation batches have three inputs, and one of a few shapes: see
// Translation. For batches of images see ImageSet.
//
// Losses are in nats per target.
//
// # Bucketing
//
// By default the pairs of an epoch are grouped by the shapes of compiled programs. With a
// window of W mini-batches ([TranslationConfig]) a host draws pairs in random order, sorts
// the pairs of W mini-batches by their longer side and cuts them into mini-batches, which are
// used in random order (Kumar et al. 2019, section 3, GNMT). With H input hosts, host h makes the
// mini-batches of steps h, h + H, and so on. A mini-batch depends only on seed and step: any
// process can make any host's.
//
// # Vocabularies and shares
//
// Languages share an epoch in proportion to n^(1/T) for n pairs (temperature T). A byte-pair
// vocabulary has 16,000 pieces by default, at most half of them characters; other characters
// become <unk>. Its counts weight the words of a language with n pairs by (n_max/n)^(1-1/T), as
// in training (Arivazhagan et al., arXiv 1907.05019). Merges are learnt from at most 2^19
// different words.
package datasets
