"""`sunk-sync demo`: both embedded worlds on sockets, the unchanged service between them, a story.

`worlds` is the stage and what people do to its hosts, `users` who brings Pods and jobs, `callers`
the programs that Slurm runs, `syncer` the service as it runs here. `beats`, `outages` and
`pod_beats` are what can happen and what then must come about; `once` and `endless` (with the
`tales` of Pods) two stories made of them, `teller` plays one, `diary` is what was told; `scene`
(with `tenants`) and `view` show it, `show` puts it all together.
"""
