# %% [markdown]
# # A model of the Hugging Face Hub
#
# Wherever a name of the box may stand, an id of the Hub may stand too. You will see what is said
# before the download, what came, and that the maps are those of the library's own
# `output_attentions`.
#
# *About this page:* where it was built there is no network. A small server on the same machine
# answered as the Hub does, the real client asked it, and the model on it is the box's own `en-lm`
# (trained, four layers), saved as a GPT-2. On your machine the first cell asks for the real
# `openai-community/gpt2`, half a gigabyte; every line below is the same.

# %%
import os

import transformer_viz as tv

name = os.environ.get("GALLERY_MODEL", "openai-community/gpt2")
model = tv.load(name)
print("asked for:", name)
print("opened as:", model.layout, "-", model.kind)
print(f"parameters: {model.parameters:,}")
print("heads are known from:", model.provenance.get("heads", "its config"))

# %% [markdown]
# Only safetensors were fetched, no code of the repository ran, and each file was compared with the
# hash that the Hub names. The copy in the cache is shared with the other programs of Hugging Face.

# %%
trace = tv.trace(model, "The weather is so nice today that we")
print(" ".join(trace.source.labels))
print("verdict:", trace.report.status)
print("goes on:", tv.translate(model, "The weather is so nice today that we")[0].text)

# %%
tv.views.atlas(trace)

# %% [markdown]
# ## The same as the library says
#
# Hugging Face's own `output_attentions=True`, from the same files, beside ours:

# %%
import numpy as np
import torch
from huggingface_hub import snapshot_download
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = snapshot_download(name, allow_patterns=["*.json", "*.safetensors"])
tokenizer = AutoTokenizer.from_pretrained(folder)
theirs = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
inputs = tokenizer("The weather is so nice today that we", return_tensors="pt")
with torch.inference_mode():
    outputs = theirs(**inputs, output_attentions=True)
largest = max(
    float(np.abs(trace.attention("decoder", layer) - weights[0].numpy()).max())
    for layer, weights in enumerate(outputs.attentions)
)
print(f"largest difference of any weight: {largest:.1e}")

# %% [markdown]
# If such outputs are all you have, one line shows them too, as BertViz would:
# `tv.head_view(outputs.attentions, tokens)` ([Come from another tool](../coming-from.md)).
#
# ## What is refused, and in which words

# %%
for wrong in ("gallery/no-such-model", "small gpt2"):
    try:
        tv.load(wrong)
    except (OSError, ValueError) as error:
        print(error, end="\n\n")

# %% [markdown]
# ## What to try next
#
# - `tv.load("Helsinki-NLP/opus-mt-en-de")`, a translator with cross-attention.
# - A fixed revision: `tv.load("openai-community/gpt2", revision="main")`, or `...@main`.
# - On the command line: `transformer-viz inspect openai-community/gpt2`. In the app: page
#   *Checkpoint*.
# - [All that can go wrong, and what is read then](../hub.md).
# - Next notebook: [what heads do](head-roles.md).
