"""Does a model's initialization do what its recipe says?"""
