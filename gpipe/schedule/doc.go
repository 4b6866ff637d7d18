// Package schedule says, as plain data, what each device of a pipeline does
// and in which order: the forward (F), recompute (R) and backward (B) tasks of
// every micro-batch of one training step.
//
// It is pure: no goroutine, clock, tensor or file. A schedule fixes only the order
// on each device. The time at which a task runs follows from the data that it waits
// for, and is determined by the runtime, which runs the lists, or by package clock,
// which replays them.
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
// and [WriteCSV] read and write PyTorch's files. [Verify] checks any schedule, independently of
// the generators: complete, in ascending order for each sum, and free of deadlock.
//
// V-shaped schedules are found by search: among the building blocks (the times at which a device
// starts a micro-batch's four F and I, repeated every six units) whose activations fit the memory,
// the one with the shortest step if F, I and W take equal time; W tasks fill the gaps. ZB-V has no
// bubble with the memory of 1f1b; V-Half has about half the bubble of 1f1b with half of its
// memory; V-Min two thirds of the bubble with a third of the memory.
//
// ZB-H1 holds the activations of 1f1b, plus what its pending W tasks need.
//
// # Asynchronous schedules
//
// PipeDream's schedules (Harlap et al., arXiv 1806.03377; Narayanan et al., SOSP 2019, and arXiv
// 2006.09503 for pipedream-2bw) do not drain the pipeline after each mini-batch. A stage updates
// its own weights, with a task U after the B that completes a mini-batch's gradient, and the
// mini-batches in flight continue with older weights. [Window] makes the lists of the
// mini-batches between two drains, and says which version of the weights each F and B reads;
// [VerifyWindow] checks them against the definitions; [WeightSlots] assigns slots to the
// versions, and [Staleness] says how old they are. On K stages, stage k from 0:
//
//	                    versions on stage k  staleness, in updates  bits depend on
//	pipedream           K-k                  K-1-k                  the window, K and the cut
//	pipedream-vertical  K                    K-1                    the window and K
//	pipedream-nostash   1                    K-1-k in F, 0 in B     the window, K and the cut
//	pipedream-2bw       2                    1                      the window
//
// Windows of fewer than 2(K-1) mini-batches need fewer versions, and with a single mini-batch
// nothing is stale. With more mini-batches in a window less time is lost to filling and
// draining, and more updates are stale.
//
// # Search
//
// [Search] looks for a schedule within a memory limit, given the times of tasks and the placement of
// stages. It builds schedules greedily on a virtual clock under some nine hundred rules, then under the
// best rule with changes for single devices, then moves single tasks within lists. A device with several
// chunks starts an F only if everything it has started can still finish within its memory, so a schedule
// is found whenever one micro-batch fits. Everything is checked by Verify, [Run] and [Peak], and the same
// seed gives the same schedule. [Wanted.Least] is a lower bound that needs no search. For few
// micro-batches a test compares with all possible schedules.
//
// # Closed forms
//
// For even stages with f, r, b for each micro-batch and n recomputed micro-batches: gpipe and
// 1f1b take (M+K-1)(f+b) + n r, late recomputation (K-1) r more, naive K (M (f+b) + n r).
// Early recomputation, the default, looks ahead by one micro-batch.
package schedule
