# %% [markdown]
# # A first look
#
# A trained Transformer translates one sentence. You will see all of its heads in one picture, one
# of them closely, and what becomes of the translation when heads are made to look elsewhere.

# %%
import transformer_viz as tv

model = tv.load("en-de")
trace = tv.trace(model, "The old man is reading a book.")
print("It read: ", *trace.source.labels)
print("It wrote:", *trace.produced.labels)

# %% [markdown]
# A *trace* is everything that happened on the way, as plain arrays and tables. Every head is in
# it, each tile below is one. Click a tile, then point at a cell: rows look at columns, and the
# weights of a row sum to 1.

# %%
tv.views.atlas(trace)

# %% [markdown]
# ## Is that what the model did?
#
# Each run is compared with an unwatched one, and the output of every attention is computed again
# from the weights that you see. The largest difference of each:

# %%
report = trace.report
print("verdict:", report.status)
print(f"watched against unwatched: {report.output_difference:.1e}")
print(f"rows that should sum to 1:  off by {report.row_sum_error:.1e} at most")
print(f"outputs computed again:    off by {max(report.rebuilt.values()):.1e} at most")

# %% [markdown]
# ## One head
#
# Cross-attention joins the two languages. The head with the lowest entropy chooses most clearly:

# %%
cross = trace.heads.query("block == 'cross'").sort_values("entropy")
sharpest = cross.iloc[0]
layer, head = int(sharpest["layer"]), int(sharpest["head"])
print(f"cross L{layer} H{head}: {sharpest['entropy']:.2f} bits in the mean")
tv.views.head_map(trace, "cross", layer=layer, head=head)

# %% [markdown]
# ## Change it
#
# Attention divides scores and takes a softmax. A *temperature* divides them once more: above 1 a
# head looks at more words, at 0 only at one. Here all of cross-attention is warmed up, step by
# step, and the model writes anew:

# %%
for value in (0, 1, 2, 3, 4):
    edit = f'{{"edits": [{{"kind": "temperature", "value": {value}, "block": "cross"}}]}}'
    warmer = tv.Intervention.from_json(edit)
    written = tv.translate(model, "The old man is reading a book.", intervention=warmer)[0]
    print(f"temperature {value}: {written.text}")

# %% [markdown]
# ## What to try next
#
# - A sentence of your own in the second line of the first cell.
# - Take `"block": "cross"` away: then every attention of the model is warmed up.
# - The same with a slider that answers while you move it: `transformer-viz app`.
# - Next notebook: [a model of your own](own-pytorch-model.md).
