"""Downloads runs and models of `hub:user/repository` from the Hugging Face Hub; `huggingface_hub` is imported late."""
