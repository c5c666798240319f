"""Downloads runs and models of `hub:user/repository` from the Hugging Face Hub; imports `huggingface_hub` only when
needed."""
