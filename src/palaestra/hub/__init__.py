"""Downloads runs and models from the Hugging Face Hub, which `hub:user/repository` names. `huggingface_hub` is imported
when one is.
"""
