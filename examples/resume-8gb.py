init_from = 'resume'
n_layer = 24
n_head = 16
n_embd = 1024
batch_size = 1
gradient_accumulation_steps = 480
compile = False
