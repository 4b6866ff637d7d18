// Package schedule says, as plain data, what each device of a pipeline does
// and in which order: the forward (F), recompute (R) and backward (B) tasks of
// every micro-batch of one training step.
//
// It is pure: no goroutine, clock, tensor or file. A schedule fixes only the order
// on each device. The time at which a task runs follows from the data that it waits
// for; that is left to what runs the lists (the runtime) or replays them (package
// clock).
//
// Every schedule has these properties:
//
//   - each stage runs F and B of each micro-batch exactly once, and R of each
//     micro-batch whose residuals were not kept, exactly once;
//   - F runs over the micro-batches in ascending order, and so does B: gradients
//     are then accumulated in example order whatever the schedule, which is what
//     makes the weights independent of it. (The paper's Figure 2c draws B
//     descending; 1f1b forces ascending, and in fill-drain it costs nothing.)
//   - R(m) comes directly before B(m).
//
// Source: Huang et al., GPipe (arXiv 1811.06965), sections 2.2 and 2.3, Figure 2.
//
// # Schedules after GPipe's
//
// A [Placement] says which device has which stages. A backward may be split into I, the
// gradient of the input, and W, that of the weights. There are interleaved 1f1b (Narayanan et
// al. 2021), for any number of micro-batches; ZB-H1 and ZB-H2 (Qi et al., arXiv 2401.10241);
// the V-shaped ZB-V, V-Half and V-Min (Qi et al., arXiv 2405.15362); and DualPipeV. [ReadCSV]
// and [WriteCSV] read and write PyTorch's files. [Verify] knows what a schedule is and no
// generator: complete, in ascending order for each sum, and free of deadlock.
//
// V-shaped schedules are found: among the building blocks (when a device begins a
// micro-batch's four F and I, repeated every six units) whose activations fit the memory, the
// one whose step is shortest if F, I and W take the same time; W fill what is left. ZB-V has
// no bubble with the memory of 1f1b; V-Half about half of the bubble of 1f1b with half of its
// memory; V-Min two thirds with a third.
//
// ZB-H1 holds the activations of 1f1b, and beside them what its W still need.
//
// # Asynchronous schedules
//
// PipeDream's schedules (Harlap et al., arXiv 1806.03377; Narayanan et al., SOSP 2019, and arXiv
// 2006.09503 for pipedream-2bw) do not drain the pipeline after each mini-batch. A stage updates
// its weights by itself, with a task U after the B that completes a mini-batch's gradient, and
// the mini-batches in flight go on with older weights. [Window] makes the lists of the
// mini-batches between two drains, and says which version of the weights each F and B reads;
// [VerifyWindow] knows the definitions and no generator; [WeightSlots] finds places for the
// versions, and [Staleness] says how old they are. On K stages, stage k from 0:
//
//	                    versions on stage k  staleness, in updates  bits depend on
//	pipedream           K-k                  K-1-k                  the window, K and the cut
//	pipedream-vertical  K                    K-1                    the window and K
//	pipedream-nostash   1                    K-1-k in F, 0 in B     the window, K and the cut
//	pipedream-2bw       2                    1                      the window
//
// Windows of fewer than 2(K-1) mini-batches need fewer versions, and in one of a single
// mini-batch nothing is stale. With more mini-batches in a window less time is lost in filling
// and draining, and more updates are stale.
//
// # Search
//
// [Search] looks for a schedule within a limit of memory, given the times of tasks and the places of
// stages. It builds schedules greedily on a virtual clock under some nine hundred rules, then under the
// best rule changed for single devices, then moves single tasks within lists. A device of several chunks
// takes an F only if what it has begun can still end within its memory, so there is a schedule whenever
// one micro-batch fits. Everything is checked by Verify, [Run] and [Peak], and a seed gives the same
// schedule again. [Wanted.Least] is a lower bound that needs no search. For few micro-batches
// a test compares with all schedules that there are.
//
// # Closed forms
//
// For even stages with f, r, b for each micro-batch and n recomputed micro-batches: gpipe and
// 1f1b take (M+K-1)(f+b) + n r, late recomputation (K-1) r more, naive K (M (f+b) + n r).
// Early recomputation, the default, looks ahead by one micro-batch.
package schedule
